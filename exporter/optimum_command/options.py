"""The options of `export-model` for argparse, in optimum's manner; read from the command, never written twice."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from typing import Any

import typer

from exporter.cli import make_app

AUTO = "auto"
_ELSEWHERE = ("model", "output", "list_recipes", "version")
"""Parameters of `export-model` that have another form here, or belong to it alone."""


def add_options(parser: ArgumentParser) -> None:
    """Add `-m/--model`, the bundle, `--task` and every option of `export-model` with its help."""
    parameters = {parameter.name: parameter for parameter in _parameters()}
    parser.add_argument("-m", "--model", metavar="MODEL", help=_help(parameters["model"]))
    parser.add_argument("output", metavar="BUNDLE", nargs="?", help=_help(parameters["output"]))
    parser.add_argument(
        "--task",
        default=AUTO,
        metavar="TASK",
        help="text-generation, text2text-generation or automatic-speech-recognition, or a synonym that optimum knows; "
        f"refused unless it is the model's. Default: {AUTO}, which optimum infers.",
    )
    groups: dict[str, Any] = {}
    for name, parameter in parameters.items():
        if name not in _ELSEWHERE:
            panel = parameter.rich_help_panel
            if panel not in groups:
                groups[panel] = parser.add_argument_group(panel)
            groups[panel].add_argument(*parameter.opts, dest=name, help=_help(parameter), **_form(parameter))


def as_export_model(given: Namespace) -> list[str]:
    """The command line of `export-model` that means the same. Values are passed on as they are, and checked there."""
    line = [] if given.output is None else ["--output", given.output]
    for parameter in _parameters():
        value = getattr(given, parameter.name, None)
        if parameter.name in _ELSEWHERE or value is None or value is False:
            continue
        option = parameter.opts[0]
        values = value if isinstance(value, list) else [value]
        line += [option] if value is True else [f"{option}={one}" for one in values]
    return line if given.model is None else [*line, "--", given.model]


def _parameters() -> Iterator[Any]:
    yield from typer.main.get_command(make_app()).params


def _form(parameter: Any) -> dict[str, Any]:
    if parameter.is_flag:
        return {"action": "store_true"}
    return {"action": "append" if parameter.multiple else "store", "metavar": parameter.metavar}


def _help(parameter: Any) -> str:
    return str(parameter.help).replace("%", "%%")
