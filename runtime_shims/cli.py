"""`run-model`: use a bundle from the command line.

Nothing here or in `commands` imports torch before a command that needs it has been chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from runtime_shims.commands.bench import bench
from runtime_shims.commands.common import print_version
from runtime_shims.commands.generate import generate
from runtime_shims.commands.inspect import inspect
from runtime_shims.commands.tokens import tokens
from runtime_shims.commands.verify import verify
from runtime_shims.console import run_app

NAME = "run-model"


def make_app() -> typer.Typer:
    """The application with its five commands."""
    app = typer.Typer(
        name=NAME,
        help="Run, look into, check and time a bundle that export-model wrote.",
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_version_option)
    for command in (generate, inspect, verify, bench, tokens):
        app.command()(command)
    return app


def _version_option(
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass  # the option does its work as it is read


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of `run-model`; returns the exit code."""
    return run_app(make_app(), NAME, arguments)
