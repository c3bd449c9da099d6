"""What a run was asked for, shared by all tasks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from tests.benchmarks.harness.conditions import conditions
from tests.benchmarks.harness.report import Report, plot_rates, table
from tests.benchmarks.harness.rivals import OURS


@dataclass(frozen=True)
class Settings:
    """work: bundles, checkpoints and logs; results: reports and plots; only: parts of workload names, or all."""

    work: Path
    results: Path
    threads: int
    rounds: int
    reuse: bool
    only: tuple[str, ...]
    console: Console

    def wants(self, workload: str) -> bool:
        """Whether a workload was asked for."""
        return not self.only or any(part in workload for part in self.only)

    def save(self, report: Report) -> None:
        """Write what is known so far: a run that is stopped keeps its finished workloads."""
        report.write(self.results / f"{report.task}.json", conditions(self.threads, self.rounds))
        plot_rates(report, self.results / f"{report.task}.png")

    def publish(self, report: Report) -> list[str]:
        """Print the tables; return the faults of the run: answers of ours that are not those of eager."""
        for workload in report.workloads():
            self.console.print(table(report, workload), "")
        for line in report.disturbed():
            self.console.print(line, highlight=False, style="yellow")
        self.console.print(f"written: {self.results / report.task}.json and .png", highlight=False)
        return [
            f"{row.workload}: {row.label}: {row.note}"
            for row in report.rows
            if row.rival == OURS and row.note is not None and "answer" in row.note
        ]
