"""Times a session: prefill, and the step at several fills and widths.

A step is repeated at one fill by rolling its tokens back, so the caches hold the same number of
positions every time. Times are medians of wall clock, in seconds.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

from runtime_shims.contract.errors import UserInputError
from runtime_shims.reference.replay import seeded_features, seeded_sounds
from runtime_shims.reference.request import SourceInput
from runtime_shims.reference.session import Session
from runtime_shims.reference.timing import median_of, step_timer

SEED = 0


@dataclass(frozen=True)
class BenchmarkPlan:
    """What to time: rows per batch, percent of the decoder positions filled, repeats per step."""

    rows: int
    fills: tuple[int, ...]
    repeats: int


@dataclass(frozen=True)
class FillResult:
    """One fill: the cost of getting there, and of one more token per row."""

    percent: int
    positions: int
    encode_seconds: float
    prefill_seconds: float
    prefill_tokens_per_second: float
    step_seconds: float
    decode_tokens_per_second: float


@dataclass(frozen=True)
class WidthResult:
    """A step of several tokens per row, as verification of drafts runs it; at the smallest fill."""

    tokens_per_row: int
    step_seconds: float


@dataclass(frozen=True)
class BenchmarkResult:
    """All measurements of one session."""

    fills: tuple[FillResult, ...]
    widths: tuple[WidthResult, ...]


def run_benchmark(session: Session, plan: BenchmarkPlan) -> BenchmarkResult:
    """Measure `session`. Raises UserInputError for a plan that does not fit the bundle."""
    _check(session, plan)
    numbers = random.Random(SEED)
    fills = tuple(_measure_fill(session, plan, percent, numbers) for percent in sorted(plan.fills))
    _fill(session, plan.rows, positions_at(session, min(plan.fills)), numbers)
    widths = tuple(
        WidthResult(width, _step_seconds(session, plan, width, numbers))
        for width in range(1, session.limits.max_logit_rows + 1)
        if session.can_extend(0, width)
    )
    return BenchmarkResult(fills, widths)


def positions_at(session: Session, percent: int) -> int:
    """Decoder positions held at a fill, so that one more token fits."""
    capacity = session.limits.max_dec
    return min(max(round(capacity * percent / 100), 1), capacity - 1)


def _check(session: Session, plan: BenchmarkPlan) -> None:
    if not 1 <= plan.rows <= session.limits.max_batch:
        raise UserInputError(f"--rows must be in 1..{session.limits.max_batch}, got {plan.rows}")
    if not plan.fills or not all(1 <= percent <= 100 for percent in plan.fills):
        raise UserInputError("--fill takes percentages of the decoder positions, 1 to 100")
    if plan.repeats < 1:
        raise UserInputError(f"--repeats must be at least 1, got {plan.repeats}")
    if session.limits.max_dec < 2:
        raise UserInputError("a bundle of one decoder position takes no step to time")


def _measure_fill(session: Session, plan: BenchmarkPlan, percent: int, numbers: random.Random) -> FillResult:
    positions = positions_at(session, percent)
    encode_seconds, prefill_seconds = _fill(session, plan.rows, positions, numbers)
    step_seconds = _step_seconds(session, plan, 1, numbers)
    return FillResult(
        percent=percent,
        positions=positions,
        encode_seconds=encode_seconds,
        prefill_seconds=prefill_seconds,
        prefill_tokens_per_second=plan.rows * positions / prefill_seconds,
        step_seconds=step_seconds,
        decode_tokens_per_second=plan.rows / step_seconds,
    )


def _fill(session: Session, rows: int, positions: int, numbers: random.Random) -> tuple[float, float]:
    """Run prompts of `positions` tokens; return the seconds of the encoder and of the prompts."""
    prompts = [_tokens(session, positions, numbers) for _ in range(rows)]
    source = _source(session, rows, numbers)
    started = time.perf_counter()
    session.begin(prompts, source)
    encoded = time.perf_counter()
    session.prefill()
    return encoded - started, time.perf_counter() - encoded


def _step_seconds(session: Session, plan: BenchmarkPlan, width: int, numbers: random.Random) -> float:
    """Median of steps of `width` tokens per row."""
    tokens = [_tokens(session, width, numbers) for _ in range(plan.rows)]
    return median_of(plan.repeats, step_timer(session, tokens))


def _source(session: Session, rows: int, numbers: random.Random) -> SourceInput | None:
    """An encoder input of full size."""
    limits, speech = session.limits, session.manifest.speech
    if speech is not None and speech.positions is not None:
        return seeded_sounds(SEED, [speech.samples] * rows)
    if limits.source_shape is not None:
        return seeded_features(SEED, rows, limits.source_shape)
    if limits.max_enc is None:
        return None
    return [_tokens(session, limits.max_enc, numbers) for _ in range(rows)]


def _tokens(session: Session, count: int, numbers: random.Random) -> Sequence[int]:
    vocab_size = session.manifest.tokens.vocab_size
    return [numbers.randrange(vocab_size) for _ in range(count)]
