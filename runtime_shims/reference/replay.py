"""Replays a bundle's golden requests and says how the answers compare.

Logits come before tokens: logits that are far off explain wrong tokens, and equal tokens of a small
model can be luck.

Shape legend: B rows, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from runtime_shims.contract.errors import UserInputError
from runtime_shims.contract.manifest import Speech
from runtime_shims.contract.sound_positions import SoundPositions
from runtime_shims.reference.generation import generate
from runtime_shims.reference.golden import Golden, GoldenRequest, IdRows
from runtime_shims.reference.request import SourceInput
from runtime_shims.reference.session import Session
from runtime_shims.reference.token_rows import check_tokens

LONGEST = 30
"""Seconds of sound in a golden request: more takes eager PyTorch long."""


@dataclass(frozen=True)
class TokenDifference:
    """The first token that differs; None stands for a row that ended earlier on that side."""

    request: int
    row: int
    position: int
    expected: int | None
    got: int | None


@dataclass(frozen=True)
class ReplayResult:
    """Largest difference of a recorded logit, and how the tokens compare over all requests."""

    requests: int
    logits_difference: float
    logits_tolerance: float
    tokens: int
    tokens_equal: int
    first_difference: TokenDifference | None

    @property
    def logits_passed(self) -> bool:
        """Whether every recorded logit is within the tolerance; False for NaN."""
        return self.logits_difference <= self.logits_tolerance

    @property
    def tokens_passed(self) -> bool:
        """Whether every row is exactly the recorded one."""
        return self.first_difference is None


def replay(session: Session, golden: Golden) -> ReplayResult:
    """Run every golden request on `session` and compare."""
    differences: list[float] = []
    answers: list[IdRows] = []
    for request in golden.requests:
        source = golden_source(session, request)
        session.begin(request.prompts, source)
        differences += _logits_differences(session.prefill(), request, session.manifest.tokens.vocab_size)
        budgets = [max(1, len(row)) for row in request.tokens]  # a recorded row may end before an undecided token
        generations = generate(session, request.prompts, source, budgets)
        pairs = zip(generations, request.tokens, strict=True)
        answers.append(tuple(generation.tokens[: len(row)] for generation, row in pairs))
    compared = [(request.tokens, got) for request, got in zip(golden.requests, answers, strict=True)]
    token_differences = [_first_difference(index, *pair) for index, pair in enumerate(compared)]
    return ReplayResult(
        requests=len(golden.requests),
        logits_difference=_largest(differences),
        logits_tolerance=golden.logits_tolerance,
        tokens=sum(len(row) for request in golden.requests for row in request.tokens),
        tokens_equal=sum(_equal_tokens(*pair) for pair in compared),
        first_difference=next((found for found in token_differences if found is not None), None),
    )


def golden_source(session: Session, request: GoldenRequest) -> SourceInput | None:
    """The encoder input of a golden request."""
    if request.features_seed is None:
        return request.source
    speech, rows = session.manifest.speech, len(request.prompts)
    if speech is not None and speech.positions is not None:
        return seeded_sounds(request.features_seed, golden_lengths(rows, speech, speech.positions))
    shape = session.limits.source_shape
    if shape is None:
        raise UserInputError("the golden file asks for speech features, the bundle takes text")
    return seeded_features(request.features_seed, rows, shape)


def seeded_features(seed: int, rows: int, source_shape: tuple[int, ...]) -> Tensor:
    """Standard normal features float32 [rows, *source_shape], the same for every call with a seed."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn((rows, *source_shape), generator=generator)


def golden_lengths(rows: int, speech: Speech, positions: SoundPositions) -> list[int]:
    """Samples of the rows of a golden request: all that fits or `LONGEST`, the least, and what lies between."""
    most = min(speech.samples, max(positions.window, LONGEST * speech.sampling_rate))
    between = (most, positions.window, (most + positions.window) // 2, (most + 2 * positions.window) // 3)
    return [between[row % len(between)] for row in range(rows)]


def seeded_sounds(seed: int, lengths: Sequence[int]) -> list[Tensor]:
    """Noise, float32 [N] of each length, the same for every call with a seed."""
    generator = torch.Generator().manual_seed(seed)
    return [0.1 * torch.randn(length, generator=generator) for length in lengths]


def _logits_differences(logits_BV: Tensor, request: GoldenRequest, vocab_size: int) -> list[float]:
    """Absolute difference of every recorded logit."""
    for row, top in enumerate(request.first_logits_top):
        check_tokens([token for token, _ in top], vocab_size, f"row {row} of the golden logits")
    return [
        abs(float(logits_BV[row, token]) - logit)
        for row, top in enumerate(request.first_logits_top)
        for token, logit in top
    ]


def _largest(differences: list[float]) -> float:
    """The largest value, 0.0 of none; NaN if any is NaN."""
    return float(torch.tensor(differences, dtype=torch.float64).max()) if differences else 0.0


def _equal_tokens(expected: IdRows, got: IdRows) -> int:
    """Tokens that agree, up to each row's first difference."""
    return sum(_agreement(row, other) for row, other in zip(expected, got, strict=True))


def _agreement(expected: tuple[int, ...], got: tuple[int, ...]) -> int:
    count = 0
    while count < min(len(expected), len(got)) and expected[count] == got[count]:
        count += 1
    return count


def _first_difference(request: int, expected: IdRows, got: IdRows) -> TokenDifference | None:
    for row, (wanted, given) in enumerate(zip(expected, got, strict=True)):
        at = _agreement(wanted, given)
        if at < max(len(wanted), len(given)):
            return TokenDifference(
                request,
                row,
                at,
                wanted[at] if at < len(wanted) else None,
                given[at] if at < len(given) else None,
            )
    return None
