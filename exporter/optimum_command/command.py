"""The command as optimum runs it. Its work is that of `export-model`, errors and exit codes included."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from functools import partial

from optimum.commands.base import BaseOptimumCLICommand, CommandInfo

from exporter.cli import make_app
from exporter.optimum_command.options import add_options, as_export_model
from runtime_shims.console import run_app

NAME = "optimum-cli export fixed-capacity"


class FixedCapacityExportCommand(BaseOptimumCLICommand):
    """`optimum-cli export fixed-capacity -m MODEL [options] [BUNDLE]`."""

    COMMAND = CommandInfo(
        name="fixed-capacity",
        help="Export to a bundle for ExecuTorch or ONNX Runtime whose caches have a fixed capacity.",
    )

    @staticmethod
    def parse_args(parser: ArgumentParser) -> None:
        """Add the options; called as optimum starts, so nothing large is imported."""
        add_options(parser)

    def run(self) -> None:
        """Export, and end the process with the exit code of `export-model` unless all went well."""
        line = as_export_model(self.args)
        if not line:
            self.parser.error("give a model with -m/--model, or a named recipe with --recipe")
        code = run_app(make_app(partial(_check_task, self.args.task)), NAME, line)
        if code:
            sys.exit(code)


def _check_task(asked: str, recipe: object) -> None:
    from exporter.optimum_command.tasks import resolve_task

    print(f"task {resolve_task(asked, recipe)}", file=sys.stderr)  # type: ignore[arg-type]
