"""One workload: every rival loads, answers are compared, then the rivals take turns.

The order of a round is that of the entries, so every rival sees the same machine. A rival that cannot take part, or
whose answers differ where they must not, becomes a row that says why.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from tests.benchmarks.harness.answers import agreement, first_difference, likeness
from tests.benchmarks.harness.environments import python_of
from tests.benchmarks.harness.job import Answer, Unavailable, one_line
from tests.benchmarks.harness.process import Program, RivalProcess
from tests.benchmarks.harness.rivals import REFERENCE, Entry, Rival
from tests.benchmarks.harness.rows import Row

PACKAGE = "tests.benchmarks"


@dataclass(frozen=True)
class Conditions:
    """How a contest is run. `follows` tells whether its rivals can follow a given continuation."""

    workload: str
    rounds: int
    logs: Path
    console: Console
    follows: bool = True


@dataclass
class _Contestant:
    rival: Rival
    process: RivalProcess
    first: Answer
    agreement: float | None
    timed: list[Answer]


def contest(entries: Sequence[Entry], conditions: Conditions) -> list[Row]:
    """One row per entry, in their order. The first entry must be the reference, and must load."""
    assert entries[0].rival.name == REFERENCE
    reference: Answer | None = None
    found: list[_Contestant | Row] = []
    try:
        for entry in entries:
            said = _admit(entry, reference, conditions)
            found.append(said)
            if reference is None:
                if isinstance(said, Row):
                    raise SystemExit(f"{conditions.workload}: the reference cannot run: {said.note}")
                reference = said.first
        for _ in range(conditions.rounds):
            found = [_take_turn(item, conditions) for item in found]
        return [_finish(item, conditions) for item in found]
    finally:
        for item in found:
            if isinstance(item, _Contestant):
                item.process.stop()


def _admit(entry: Entry, reference: Answer | None, conditions: Conditions) -> _Contestant | Row:
    """Load a rival and hold its first answer against the reference."""
    rival = entry.rival
    conditions.console.print(f"  {rival.label} ...", highlight=False)
    process = None
    try:
        python = python_of(rival.environment)
        log = conditions.logs / f"{conditions.workload}-{rival.label}.log".replace(" ", "-")
        job = entry.prepare()
        process = RivalProcess(Program(python, f"{PACKAGE}.{rival.module}", log), job)
        first = process.answer()
        share = None if reference is None else _judge(rival, reference, first, process, conditions.follows)
    except Exception as reason:  # whatever stands in a rival's way is its row
        if process is not None:
            process.stop()
        conditions.console.print(f"    {one_line(reason)}", highlight=False)
        return Row.absent(rival, conditions.workload, one_line(reason))
    return _Contestant(rival, process, first, share, [])


def _judge(rival: Rival, reference: Answer, first: Answer, process: RivalProcess, follows: bool) -> float | None:
    """Agreement of a rival whose tokens may differ. Raises Unavailable where they differ and must not."""
    if rival.exact is None:
        return None
    if not rival.exact:
        expected = reference.tokens[0]
        return agreement(expected, process.follow(expected)) if follows else likeness(reference.tokens, first.tokens)
    if fault := first_difference(reference.tokens, first.tokens):
        raise Unavailable(f"not timed, its answer is another one: {fault}")
    return None


def _take_turn(item: _Contestant | Row, conditions: Conditions) -> _Contestant | Row:
    """One timed answer, which must repeat the first."""
    if isinstance(item, Row):
        return item
    try:
        answer = item.process.answer()
        if fault := first_difference(item.first.tokens, answer.tokens):
            raise Unavailable(f"its answers change from run to run: {fault}")
    except Unavailable as reason:
        item.process.stop()
        return Row.absent(item.rival, conditions.workload, one_line(reason))
    item.timed.append(answer)
    return item


def _finish(item: _Contestant | Row, conditions: Conditions) -> Row:
    if isinstance(item, Row):
        return item
    loaded, answers = item.process.loaded, item.timed
    totals = [answer.total for answer in answers]
    return Row(
        rival=item.rival.name,
        variant=item.rival.variant,
        workload=conditions.workload,
        note=None,
        agreement=item.agreement,
        rows=len(answers[0].tokens),
        tokens=sum(map(len, answers[0].tokens)),
        first_token_seconds=statistics.median(answer.first_token for answer in answers),
        decode_seconds=statistics.median(answer.decode for answer in answers),
        total_seconds=statistics.median(totals),
        fastest_seconds=min(totals),
        slowest_seconds=max(totals),
        load_seconds=loaded.load_seconds,
        weights_bytes=loaded.weights_bytes,
        cache_element_bytes=loaded.cache_element_bytes,
        packages=loaded.packages,
        peak_rss_bytes=item.process.finish(),
    )
