"""Drafts from which no token can be chosen: the target goes on without them, and says how often.

What a target answers is another matter: there such logits end the run.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from runtime_doubles import BundleShape, HistoryProgram, expected_continuation, history_session, make_bundle
from speculation_doubles import Rounds, run_rows

from runtime_shims.reference.adaptive import FixedDrafts
from runtime_shims.reference.proposers import DraftModel
from runtime_shims.reference.sampling_settings import SamplingSettings
from runtime_shims.reference.session import Session
from runtime_shims.reference.speculative import Decoding
from runtime_shims.reference.token_rules import NoTokenAllowed

SHAPE = BundleShape(max_dec=300, max_draft=8, prefill_chunk=9, window=12)
PROMPTS = [[5, 6, 7], [9]]
DRAWN = SamplingSettings(temperature=0.8, seed=3)
DRAFTS = 4


def broken_session(values: tuple[float, ...], breaks: Callable[[int, int], bool]) -> Session:
    """A draft model that begins its logits with `values` for the rows and positions that `breaks` says."""

    class Broken(HistoryProgram):
        def _logits(self, row: int, position: int) -> torch.Tensor:
            logits_V = super()._logits(row, position)
            if breaks(row, position):
                logits_V[: len(values)] = torch.tensor(values)
            return logits_V

    bundle = make_bundle(SHAPE)
    return Session(bundle, Broken(bundle.manifest.limits))


def how_with(session: Session, rounds: Rounds, settings: SamplingSettings | None = None) -> Decoding:
    settings = settings or SamplingSettings()
    return Decoding(settings, DraftModel(session), FixedDrafts(DRAFTS), on_round=rounds)


@pytest.mark.parametrize("settings", [SamplingSettings(), DRAWN], ids=["greedy", "drawn"])
@pytest.mark.parametrize(
    "values", [(math.nan,) * 64, (0.0, math.nan), (math.inf,), (-math.inf,) * 64], ids=["nan", "a nan", "inf", "-inf"]
)
def test_a_draft_that_is_never_usable_leaves_plain_decoding(
    settings: SamplingSettings, values: tuple[float, ...]
) -> None:
    rounds = Rounds()
    session = broken_session(values, lambda row, position: True)
    found, stats = run_rows(history_session(SHAPE)[0], PROMPTS, how_with(session, rounds, settings), 60)
    plain, plain_stats = run_rows(history_session(SHAPE)[0], PROMPTS, Decoding(settings), 60)
    assert found == plain
    unasked = sum(answer.stop_reason == "max_new_tokens" for answer in found)  # a row's last token has no room for any
    assert stats.unusable_proposals == stats.plain_tokens - unasked > 100
    assert stats.steps == plain_stats.steps
    assert (stats.proposed, stats.fallback_rounds) == (0, 0)


def test_only_the_row_and_the_round_concerned_go_without_drafts() -> None:
    """Contexts of 4, 9, 14 and 19 tokens are asked about, and position 20 is the third of the last one's drafts."""
    rounds = Rounds()
    session = broken_session((math.nan,), lambda row, position: (row, position) == (0, 20))
    found, stats = run_rows(history_session(SHAPE)[0], PROMPTS, how_with(session, rounds), 60)
    assert [list(answer.tokens) for answer in found] == [expected_continuation(prompt, 60) for prompt in PROMPTS]
    of_row = [[len(outcomes[row].proposed) for outcomes in rounds.seen[:8]] for row in (0, 1)]
    assert of_row == [[4, 4, 4, 0, 0, 0, 4, 4], [4] * 8]
    assert stats.unusable_proposals == 3
    assert stats.accepted == stats.proposed > 60


def test_the_logits_of_a_target_that_hold_nan_end_the_run() -> None:
    target = broken_session((math.nan,), lambda row, position: (row, position) == (1, 9))
    with pytest.raises(NoTokenAllowed, match="the best logit is nan"):
        run_rows(target, PROMPTS, how_with(history_session(SHAPE)[0], Rounds()), 60)
