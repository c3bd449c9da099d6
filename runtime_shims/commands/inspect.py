"""`run-model inspect`: what a bundle is, what fits in it, and where its memory goes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from runtime_shims.commands.common import BundleArgument, DebugOption, JsonOption, print_json
from runtime_shims.commands.numbers import whole_number
from runtime_shims.contract.bundle_reader import read_bundle
from runtime_shims.contract.manifest import Manifest, to_json

if TYPE_CHECKING:
    from rich.console import RenderableType


def inspect(
    bundle: BundleArgument,
    width: Annotated[
        int | None,
        typer.Option(
            help="Columns to draw in. Default: the terminal's.", metavar="N", parser=whole_number("--width", 60)
        ),
    ] = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show the capacities, the memory map, the methods and the files."""
    opened = read_bundle(bundle, check_hashes=False)
    own_draft = opened.draft(check_hashes=False)
    manifest, draft = opened.manifest, None if own_draft is None else own_draft.manifest
    if as_json:
        inside = None if draft is None else json.loads(to_json(draft))
        print_json({"bundle": str(bundle), "manifest": json.loads(to_json(manifest)), "draft": inside})
        return
    from rich.console import Console

    console = Console(width=width, highlight=False, markup=False)
    for part in report(manifest, draft):
        console.print(part)


def report(manifest: Manifest, draft: Manifest | None = None) -> list[RenderableType]:
    """The parts of the report, top to bottom."""
    from runtime_shims.commands import inspect_memory, inspect_program, inspect_summary

    return [
        inspect_summary.heading(manifest),
        inspect_summary.capacities(manifest),
        inspect_memory.caches(manifest),
        inspect_memory.memory_map(manifest, draft),
        inspect_program.programs(manifest),
        *([] if draft is None else [inspect_summary.own_draft(manifest, draft)]),
        inspect_summary.token_rules(manifest),
        inspect_summary.files(manifest),
    ]
