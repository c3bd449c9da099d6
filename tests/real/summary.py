"""What the real-weight tests measured, as tables at the end of the run. Nothing here fails a test."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass, field
from io import StringIO
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table

from tests.real.exports import ExportRecord


@dataclass
class Summary:
    """Collected during the session, in every process; `render` gives the text."""

    findings: list[tuple[str, str, str]] = field(default_factory=list)
    records: dict[tuple[str, str], ExportRecord] = field(default_factory=dict)

    def add(self, model: str, form: str, finding: str) -> None:
        """Note one finding of one bundle."""
        self.findings.append((model, form, finding))

    def packed(self) -> list[list[Any]]:
        """Everything as lists, to be sent to another process."""
        return [[list(finding) for finding in self.findings], [list(astuple(made)) for made in self.records.values()]]

    def unpack(self, packed: list[list[Any]]) -> None:
        """Add what another process has packed."""
        findings, records = packed
        self.findings += [tuple(finding) for finding in findings]
        for made in (ExportRecord(*values) for values in records):
            self.records[made.name, made.form] = made

    def render(self) -> str:
        """Tables of the exports and of the findings; empty when there is neither."""
        text = StringIO()
        console = Console(file=text, width=120)
        if self.records:
            console.print(exports_table(self.records.values()))
        if self.findings:
            console.print(findings_table(self.findings))
        return text.getvalue()


def exports_table(records: Iterable[ExportRecord]) -> RenderableType:
    """One row per export: seconds, and memory and file size as multiples of the fp32 weights."""
    table = Table(title="Exports", title_justify="left", box=None, pad_edge=False, header_style="bold")
    for name in ("model", "form"):
        table.add_column(name)
    for name in ("seconds", "CPU s", "weights MB", "peak RSS MB", "RSS / weights", "file / weights"):
        table.add_column(name, justify="right")
    for record in records:
        table.add_row(
            record.name,
            record.form,
            f"{record.seconds:.0f}",
            f"{record.cpu_seconds:.0f}",
            f"{record.weights_bytes / 1e6:.0f}",
            f"{record.peak_rss_bytes / 1e6:.0f}",
            f"{record.peak_rss_bytes / record.weights_bytes:.2f}",
            f"{record.file_bytes / record.weights_bytes:.3f}",
        )
    return table


def findings_table(findings: Iterable[tuple[str, str, str]]) -> RenderableType:
    """One row per finding, in the order the tests ran."""
    table = Table(title="Findings", title_justify="left", box=None, pad_edge=False, header_style="bold")
    for name in ("model", "form", "finding"):
        table.add_column(name)
    for finding in findings:
        table.add_row(*finding)
    return table
