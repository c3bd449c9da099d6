"""The report of a task: JSON, a table, and bars of tokens per second."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.table import Table

from tests.benchmarks.harness.bandwidth import PROBE
from tests.benchmarks.harness.rivals import REFERENCE
from tests.benchmarks.harness.rows import Row

DISTURBED_SPREAD = 1.5


@dataclass
class Report:
    """All rows of a task.

    recipes         SHA-256 of the recipe of every bundle that took part, by variant
    cache_elements  key and value elements that one row's step reads at the mean live length, by workload
    """

    task: str
    rows: list[Row] = field(default_factory=list)
    recipes: dict[str, str] = field(default_factory=dict)
    cache_elements: dict[str, float] = field(default_factory=dict)

    def workloads(self) -> list[str]:
        return list(dict.fromkeys(row.workload for row in self.rows))

    def of(self, workload: str) -> list[Row]:
        """Rows of one workload, without the read probe."""
        return [row for row in self.rows if row.workload == workload and row.rival != PROBE.name]

    def read_limit(self, workload: str) -> float | None:
        """10^9 bytes per second that the probe read in the same rounds."""
        for row in self.rows:
            if row.workload == workload and row.rival == PROBE.name and row.decode_seconds:
                return row.weights_bytes / row.decode_seconds / 1e9
        return None

    def read_rate(self, row: Row) -> float | None:
        """10^9 bytes per second that a row's decoding reads."""
        return row.read_gb_per_second(self.cache_elements.get(row.workload, 0.0))

    def disturbed(self) -> list[str]:
        """Rows whose rounds differ so much that the machine cannot have been idle, one line each."""
        return [
            f"{row.workload}, {row.label}: the slowest round took {row.spread:.1f} times the fastest, "
            f"{row.fastest_seconds:.3f} s; the machine was not idle"
            for row in self.rows
            if row.note is None and row.spread > DISTURBED_SPREAD
        ]

    def as_dict(self, conditions: dict[str, Any]) -> dict[str, Any]:
        rows = [row.as_dict() | {"read_gb_per_second": self.read_rate(row)} for row in self.rows]
        limits = {workload: self.read_limit(workload) for workload in self.workloads()}
        return {
            "task": self.task,
            **conditions,
            "recipe_sha256": self.recipes,
            "read_limit_gb_per_second": limits,
            "disturbed": self.disturbed(),
            "results": rows,
        }

    def write(self, file: Path, conditions: dict[str, Any]) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(self.as_dict(conditions), indent=1) + "\n", encoding="utf-8")


def table(report: Report, workload: str) -> Table:
    """One row per rival; a rival that did not take part shows why."""
    limit = report.read_limit(workload)
    title = workload if limit is None else f"{workload} (this machine read {limit:.1f} GB/s in the same rounds)"
    columns = (
        *("tokens/s", "decode/s", "first token", "total", "spread"),
        *("against eager", "GB/s", "of limit", "peak", "answer"),
    )
    out = Table("rival", *columns, title=title, box=None, title_justify="left")
    for column in out.columns[1:-1]:
        column.justify = "right"
    eager = next((row for row in report.of(workload) if row.rival == REFERENCE), None)
    for row in report.of(workload):
        out.add_row(row.label, *_cells(row, eager, report.read_rate(row), limit))
    return out


def _cells(row: Row, eager: Row | None, rate: float | None, limit: float | None) -> list[str]:
    if row.note is not None:
        return [""] * 9 + [row.note]
    faster = eager.total_seconds / row.total_seconds if eager and eager.total_seconds else None
    return [
        _number(row.tokens_per_second, "{:.1f}"),
        _number(row.decode_tokens_per_second, "{:.1f}"),
        _number(1000 * row.first_token_seconds or None, "{:.0f} ms"),
        f"{row.total_seconds:.3f} s",
        f"{row.spread:.2f}",
        _number(faster, "{:.2f}x"),
        _number(rate, "{:.1f}"),
        _number(100 * rate / limit if rate and limit else None, "{:.0f} %"),
        f"{row.peak_rss_bytes / 1e6:.0f} MB",
        "equal" if row.agreement is None else f"{100 * row.agreement:.0f} % agree",
    ]


def _number(value: float | None, form: str) -> str:
    return "" if value is None else form.format(value)


def plot_rates(report: Report, file: Path) -> None:
    """Bars of tokens per second, one panel per workload; decoding where it is known, else the whole answer."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    workloads = report.workloads()
    longest = max(len(report.of(workload)) for workload in workloads)
    figure, panels = pyplot.subplots(
        len(workloads), 1, figsize=(9, len(workloads) * (1 + 0.35 * longest)), squeeze=False
    )
    for axes, workload in zip(panels[:, 0], workloads, strict=True):
        rows = [row for row in report.of(workload) if row.note is None]
        rates = [row.decode_tokens_per_second or row.tokens_per_second or 0.0 for row in rows]
        bars = axes.barh([row.label for row in rows], rates)
        axes.bar_label(bars, fmt="%.1f", padding=3)
        axes.invert_yaxis()
        axes.set(title=workload, xlabel="tokens per second")
        axes.margins(x=0.12)
    figure.tight_layout()
    figure.savefig(file, dpi=120)
    pyplot.close(figure)
