"""`run-model verify`: is the bundle what was exported, and does every program answer as recorded?"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from runtime_shims.commands.common import (
    BundleArgument,
    DebugOption,
    JsonOption,
    ThreadsOption,
    print_json,
    start_session,
)
from runtime_shims.contract.bundle_reader import Bundle, read_bundle
from runtime_shims.contract.errors import FixedCapacityError
from runtime_shims.contract.formatting import format_bytes

if TYPE_CHECKING:
    from rich.console import Group

    from runtime_shims.contract.manifest import ProgramEntry
    from runtime_shims.reference.golden import Golden
    from runtime_shims.reference.golden_drafts import DraftsResult
    from runtime_shims.reference.golden_features import FeaturesResult
    from runtime_shims.reference.replay import ReplayResult


OneBackendOption = Annotated[
    str | None, typer.Option("--backend", help="Replay only this program. Default: all of them.", metavar="NAME")
]


@dataclass(frozen=True)
class Rung:
    """One step of the ladder; `passed` is None when it was not tried: an earlier one failed, or nothing is recorded."""

    subject: str
    check: str
    passed: bool | None
    detail: str


def verify(
    bundle: BundleArgument,
    backend: OneBackendOption = None,
    threads: ThreadsOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Check every hash and the form of ONNX graphs, then replay the golden requests on every program (or --backend)."""
    opened = read_bundle(bundle, check_hashes=True)
    rungs = _rungs(opened, backend, threads)
    if (draft := opened.draft()) is not None:
        rungs += [replace(rung, subject=f"draft, {rung.subject}") for rung in _rungs(draft, backend, threads)]
    passed = not any(rung.passed is False for rung in rungs)
    if as_json:
        print_json({"bundle": str(bundle), "passed": passed, "rungs": [asdict(rung) for rung in rungs]})
    else:
        from rich.console import Console

        Console(highlight=False, markup=False).print(ladder(rungs))
    if not passed:
        first = next(rung for rung in rungs if rung.passed is False)
        typer.echo(f"verification failed: {first.subject}, {first.check}: {first.detail}", err=True)
        raise typer.Exit(1)


def ladder(rungs: list[Rung]) -> Group:
    """The rungs as a table; the first that fails is where to look."""
    from rich.text import Text

    from runtime_shims.commands.tables import new_table, titled

    marks = {True: Text("ok", "green"), False: Text("failed", "bold red"), None: Text("skipped", "dim")}
    table = new_table(["", "check", "", "detail"])
    for rung in rungs:
        table.add_row(rung.subject, rung.check, marks[rung.passed], rung.detail)
    return titled("Verification", table)


def _rungs(bundle: Bundle, backend: str | None, threads: int | None) -> list[Rung]:
    return [_files_rung(bundle), *_program_rungs(bundle, backend, threads)]


def _files_rung(bundle: Bundle) -> Rung:
    """read_bundle has refused the bundle if any hash differs."""
    files = bundle.manifest.files
    total = format_bytes(sum(entry.size_bytes for entry in files))
    return Rung("bundle", "files", True, f"{len(files)} files, {total}, every SHA-256 as recorded")


def _program_rungs(bundle: Bundle, backend: str | None, threads: int | None) -> list[Rung]:
    from runtime_shims.reference.golden import read_golden

    golden = read_golden(bundle)
    entries = bundle.manifest.programs if backend is None else (bundle.program(backend),)
    rungs: list[Rung] = []
    for entry in entries:
        if entry.format == "onnx":
            rungs.append(_graphs_rung(bundle, entry))
        rungs += _replay_rungs(bundle, entry.backend, threads, golden)
    return rungs


def _graphs_rung(bundle: Bundle, entry: ProgramEntry) -> Rung:
    from runtime_shims.reference.onnx_graphs import graph_fault, program_graphs

    paths = program_graphs(bundle, entry)
    faults = [f"{path.name}: {fault}" for path in paths if (fault := graph_fault(path)) is not None]
    detail = f"{', '.join(path.name for path in paths)}: ONNX's checker, every shape inferred"
    return Rung(entry.backend, "graphs", not faults, "; ".join(faults) or detail)


def _replay_rungs(bundle: Bundle, backend: str, threads: int | None, golden: Golden) -> list[Rung]:
    from runtime_shims.reference.golden_drafts import replay_drafts
    from runtime_shims.reference.golden_features import replay_features
    from runtime_shims.reference.replay import replay

    checks = ["load", "run", "first logits", "tokens"]
    checks += ["features"] if golden.features is not None else []
    checks += ["drafts"] if golden.drafts is not None else []
    rungs: list[Rung] = []
    try:
        session = start_session(bundle, backend, threads)
        rungs.append(Rung(backend, "load", True, bundle.program(backend).file))
        result = replay(session, golden)
        rungs.append(Rung(backend, "run", True, f"golden requests: {result.requests}"))
        rungs += _answer_rungs(backend, result)
        if golden.features is not None:
            rungs.append(_features_rung(backend, replay_features(session, golden.features)))
        if golden.drafts is not None:
            drafted = replay_drafts(session, golden.requests[0].prompts, golden.drafts)
            rungs.append(_drafts_rung(backend, drafted))
    except FixedCapacityError as error:
        rungs.append(Rung(backend, checks[len(rungs)], False, str(error)))
    return rungs + [Rung(backend, check, None, "") for check in checks[len(rungs) :]]


def _features_rung(backend: str, result: FeaturesResult) -> Rung:
    detail = f"largest difference from the extractor {result.difference:.2g}, tolerance {result.tolerance:.2g}"
    return Rung(backend, "features", result.passed, detail)


def _drafts_rung(backend: str, result: DraftsResult) -> Rung:
    detail = f"{result.drafts} of the assistant, largest difference {result.difference:.2g}, "
    return Rung(backend, "drafts", result.passed, detail + f"tolerance {result.tolerance:.2g}")


def _answer_rungs(backend: str, result: ReplayResult) -> list[Rung]:
    logits = Rung(
        backend,
        "first logits",
        result.logits_passed,
        f"largest difference {result.logits_difference:.2g}, tolerance {result.logits_tolerance:.2g}",
    )
    detail = f"{result.tokens_equal} of {result.tokens} as recorded"
    if result.first_difference is not None:
        at = result.first_difference
        detail += (
            f"; request {at.request}, row {at.row}, new token {at.position}: "
            f"expected {_token(at.expected)}, got {_token(at.got)}"
        )
    if result.tokens == 0:
        return [logits, Rung(backend, "tokens", None, "none recorded: no logit decides one by more than the tolerance")]
    return [logits, Rung(backend, "tokens", result.tokens_passed, detail)]


def _token(token: int | None) -> str:
    return "the end" if token is None else str(token)
