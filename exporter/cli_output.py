"""What `export-model` prints: results to standard output, progress to standard error."""

from __future__ import annotations

import dataclasses
import logging
import os
import time
import warnings
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import typer
from rich.console import Console
from rich.status import Status

from exporter.plan_view import plan_json, render_plan
from exporter.recipe_plans import RecipePlans
from exporter.recipe_view import recipes_json, render_recipe, render_recipes
from exporter.spec.capacity_plan import CapacityPlan
from runtime_shims.commands.common import print_json

WIDTH_OF_FILES = 120
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


def print_recipes(recipes: Sequence[RecipePlans], *, as_json: bool) -> None:
    """All recipes as one table, one of them in full, or JSON."""
    if as_json:
        print_json(recipes_json(recipes))
        return
    console = Console()
    if not console.is_terminal:  # a file or a pipe has no width of its own; the table needs this much
        console.width = max(console.width, WIDTH_OF_FILES)
    console.print(render_recipe(recipes[0]) if len(recipes) == 1 else render_recipes(recipes))


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
