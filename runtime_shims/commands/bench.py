"""`run-model bench`: check the answers, then time prefill and steps."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from runtime_shims.commands.common import (
    BackendOption,
    BundleArgument,
    DebugOption,
    JsonOption,
    NoVerifyOption,
    ThreadsOption,
    print_json,
    start_session,
)
from runtime_shims.commands.numbers import whole_number
from runtime_shims.contract.bundle_reader import Bundle, read_bundle
from runtime_shims.contract.errors import FixedCapacityError
from runtime_shims.contract.formatting import format_bytes
from runtime_shims.contract.manifest import to_json

if TYPE_CHECKING:
    from rich.console import RenderableType

    from runtime_shims.reference.benchmark import BenchmarkResult
    from runtime_shims.reference.session import Session

DEFAULT_FILLS = (5, 50, 100)


def bench(
    bundle: BundleArgument,
    rows: Annotated[int, typer.Option(help="Rows run at once.", metavar="N", parser=whole_number("--rows", 1))] = 1,
    fill: Annotated[
        list[int] | None,
        typer.Option(
            help="Percent of the decoder positions to fill; repeat. Default: 5, 50, 100.",
            metavar="PERCENT",
            parser=whole_number("--fill", 1, 100),
        ),
    ] = None,
    repeats: Annotated[
        int, typer.Option(help="Steps per measurement.", metavar="N", parser=whole_number("--repeats", 1))
    ] = 20,
    backend: BackendOption = None,
    threads: ThreadsOption = None,
    as_json: JsonOption = False,
    no_verify: NoVerifyOption = False,
    debug: DebugOption = False,
) -> None:
    """Time prefill and decoding at several fills, and the step by width."""
    opened = read_bundle(bundle, check_hashes=not no_verify)
    started = time.perf_counter()
    session = start_session(opened, backend, threads)
    load_seconds = time.perf_counter() - started
    if not no_verify:
        _check_answers(opened, session)
    from runtime_shims.reference.benchmark import BenchmarkPlan, run_benchmark

    result = run_benchmark(session, BenchmarkPlan(rows, tuple(fill or DEFAULT_FILLS), repeats))
    conditions = _conditions(opened, backend, rows, threads)
    if as_json:
        print_json({**conditions, "load_seconds": load_seconds, "peak_rss_bytes": _peak(), **asdict(result)})
        return
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    for part in _tables(result):
        console.print(part)
    console.print(
        f"{conditions['program']}, rows {rows}, threads {conditions['threads']}, "
        f"load {load_seconds:.2f} s, peak memory {format_bytes(_peak())}"
    )


def _check_answers(bundle: Bundle, session: Session) -> None:
    """A wrong program is not worth timing."""
    from runtime_shims.reference.golden import read_golden
    from runtime_shims.reference.replay import replay

    result = replay(session, read_golden(bundle))
    if not (result.logits_passed and result.tokens_passed):
        raise FixedCapacityError(
            "the program does not answer as recorded, so it is not timed; "
            "`run-model verify` shows where, --no-verify times it all the same"
        )


def _conditions(bundle: Bundle, backend: str | None, rows: int, threads: int | None) -> dict[str, object]:
    """What the numbers depend on beside the code."""
    from runtime_shims.reference.loading import runtime_threads

    recipe = json.loads(to_json(bundle.manifest))["recipe"]
    digest = hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()
    return {
        "bundle": str(bundle.root),
        "model": bundle.manifest.source.model,
        "program": bundle.program(backend).file,
        "rows": rows,
        "threads": runtime_threads(bundle.program(backend), threads),
        "recipe_sha256": digest,
        "machine": {"system": platform.system(), "processor": platform.machine(), "cores": os.cpu_count()},
        "packages": {package.name: package.version for package in bundle.manifest.packages},
    }


def _tables(result: BenchmarkResult) -> list[RenderableType]:
    from runtime_shims.commands.tables import new_table, titled

    fills = new_table([">fill", ">positions", ">encoder", ">prefill", ">tokens/s", ">step", ">tokens/s"])
    for at in result.fills:
        fills.add_row(
            f"{at.percent} %",
            f"{at.positions:,}",
            f"{at.encode_seconds * 1000:.1f} ms",
            f"{at.prefill_seconds * 1000:.1f} ms",
            f"{at.prefill_tokens_per_second:,.1f}",
            f"{at.step_seconds * 1000:.2f} ms",
            f"{at.decode_tokens_per_second:,.1f}",
        )
    widths = new_table([">tokens", ">step", ">against one token"])
    for width in result.widths:
        ratio = width.step_seconds / result.widths[0].step_seconds
        widths.add_row(str(width.tokens_per_row), f"{width.step_seconds * 1000:.2f} ms", f"{ratio:.2f}x")
    return [
        titled("By fill of the decoder positions: prefill up to it, then steps of one token per row", fills),
        titled("By tokens per row in one step", widths),
    ]


def _peak() -> int:
    from runtime_shims.reference.stats import peak_rss_bytes

    return peak_rss_bytes()
