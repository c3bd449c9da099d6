"""What `export-model` prints: results to standard output, progress to standard error."""

from __future__ import annotations

import dataclasses
import logging
import os
import time
import warnings
from types import TracebackType
from typing import Any

import typer
from rich.console import Console
from rich.status import Status
from rich.table import Table

from exporter.plan_view import plan_json, render_plan
from exporter.spec.capacity_plan import CapacityPlan
from recipes.index import RECIPES
from runtime_shims.commands.common import print_json

_CHATTY = (
    "torchao",
    "torch.utils._pytree",
    "torch.onnx._internal.exporter._registration",  # by its full name: PyTorch resets `torch.onnx` as it is imported
    "transformers",
    "huggingface_hub",
)


def quiet_libraries() -> None:
    """Keep the advice and progress bars of libraries off the terminal; their errors are exceptions."""
    warnings.filterwarnings("ignore")
    for name in ("TQDM_DISABLE", "HF_HUB_DISABLE_PROGRESS_BARS"):
        os.environ.setdefault(name, "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.ERROR)


def print_recipes(wanted: bool) -> None:
    """Print every named recipe and stop, if `wanted`."""
    if not wanted:
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("recipe", "model", "purpose"):
        table.add_column(title)
    for name, make in RECIPES.items():
        purpose = (make.__doc__ or "").strip().partition("\n")[0]
        table.add_row(name, make().model, purpose)
    Console().print(table)
    raise typer.Exit


def print_plan(plan: CapacityPlan, draft: CapacityPlan | None = None, *, as_json: bool) -> None:
    """The plan, and that of what drafts for it, as tables or as one JSON document."""
    if as_json:
        print_json({**plan_json(plan), "draft": None if draft is None else plan_json(draft)})
        return
    console = Console()
    console.print(render_plan(plan))
    if draft is not None:
        console.print("\n[bold]its draft[/bold]", render_plan(draft), sep="\n")


def print_report(report: Any, *, as_json: bool) -> None:
    """What was written: a dataclass whose `str()` is meant for people."""
    if as_json:
        print_json(dataclasses.asdict(report))
    else:
        typer.echo(str(report))


class ConsoleProgress:
    """Shows the running stage and how long each one took; a spinner on a terminal, lines elsewhere."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._console = Console(stderr=True)
        self._status: Status | None = None
        self._name: str | None = None
        self._began = 0.0

    def __enter__(self) -> ConsoleProgress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._finish(succeeded=error is None)

    def stage(self, name: str) -> None:
        """Finish the running stage and begin `name`."""
        self._finish(succeeded=True)
        self._name, self._began = name, time.monotonic()
        if self._console.is_terminal:
            self._status = self._console.status(name)
            self._status.start()

    def planned(self, plan: CapacityPlan, draft: CapacityPlan | None = None) -> None:
        """Print the plans, unless standard output is for JSON."""
        self._finish(succeeded=True)
        if not self._as_json:
            print_plan(plan, draft, as_json=False)

    def _finish(self, *, succeeded: bool) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None
        if self._name is not None and succeeded:
            seconds = time.monotonic() - self._began
            self._console.print(f"{self._name} [dim]{seconds:.1f} s[/dim]", highlight=False)
        self._name = None
