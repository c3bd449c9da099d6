"""The speed model, and drafts that follow it: up when they pay, to none when they do not, and back again."""

from __future__ import annotations

import pytest
from runtime_doubles import BundleShape, history_session
from speculation_doubles import ForcedProposer, run_rows

from runtime_shims.contract.errors import UserInputError
from runtime_shims.reference.adaptive import FIRST_ACCEPTANCE, PROBE_AFTER, AdaptiveDrafts, SpeedModel, measure
from runtime_shims.reference.speculative import Decoding

FLAT = SpeedModel(verify=(1.0,) * 9, draft=0.0)
STEEP = SpeedModel(verify=tuple(1.0 + width for width in range(9)), draft=0.0)
DEAR = SpeedModel(verify=tuple(1.0 + 0.1 * width for width in range(9)), draft=0.3)


def test_the_speed_up_is_that_of_the_formula() -> None:
    for acceptance in (0.0, 0.3, 0.95):
        for drafts in (0, 1, 4, 8):
            tokens = (1 - acceptance ** (drafts + 1)) / (1 - acceptance)
            expected = tokens / (1 + 0.1 * drafts + 0.3 * drafts)
            assert DEAR.speed_up(drafts, acceptance) == pytest.approx(expected, rel=1e-12)
    assert FLAT.speed_up(4, 1.0) == 5.0


def test_the_first_round_is_optimistic() -> None:
    assert AdaptiveDrafts(FLAT, 8).choose() == 8
    assert AdaptiveDrafts(FLAT, 5).choose() == 4
    assert AdaptiveDrafts(FLAT, 0).choose() == 0
    assert FIRST_ACCEPTANCE == 0.9


def test_a_gain_within_what_measuring_gets_wrong_is_no_gain() -> None:
    for draft, chosen in ((0.8, 0), (0.7, 1)):  # at acceptance 0.9 one draft brings 1.9 tokens
        assert AdaptiveDrafts(SpeedModel((1.0, 1.04), draft), 1).choose() == chosen


def test_drafts_that_cost_more_than_they_bring_are_not_asked_for() -> None:
    adaptive = AdaptiveDrafts(STEEP, 8)
    assert [adaptive.choose() for _ in range(PROBE_AFTER)] == [0] * PROBE_AFTER


def test_rejected_drafts_shorten_the_block_until_none_are_asked_for() -> None:
    adaptive = AdaptiveDrafts(DEAR, 8)
    chosen = []
    for _ in range(20):
        chosen.append(adaptive.choose())
        adaptive.observe(min(chosen[-1], 1), 0)
    assert chosen[0] == 4
    assert chosen == sorted(chosen, reverse=True)
    assert chosen[-1] == 0


@pytest.mark.parametrize(
    ("model", "rounds"), [(SpeedModel((1.0, 1.1, 1.25), 0.0), 16), (DEAR, 55), (SpeedModel((1.0, 1.25, 1.5), 0.5), 100)]
)
def test_a_probe_costs_at_most_two_percent_of_the_rounds_before_it(model: SpeedModel, rounds: int) -> None:
    adaptive = AdaptiveDrafts(model, 8)
    adaptive.observe(50, 0)
    chosen = [adaptive.choose() for _ in range(2 * (rounds + 1))]
    assert chosen == ([0] * rounds + [2]) * 2
    assert rounds >= PROBE_AFTER


def test_a_text_that_became_predictable_is_noticed() -> None:
    adaptive = AdaptiveDrafts(DEAR, 8)
    adaptive.observe(50, 0)
    for _ in range(600):
        count = adaptive.choose()
        adaptive.observe(count, count)
    assert adaptive.choose() >= 4


def test_acceptance_moves_an_eighth_of_the_way_per_judged_draft() -> None:
    adaptive = AdaptiveDrafts(FLAT, 8)
    adaptive.observe(0, 0)
    assert adaptive.acceptance == 0.9
    adaptive.observe(2, 1)
    up = 0.9 + (1.0 - 0.9) * 0.125
    assert adaptive.acceptance == up + (0.0 - up) * 0.125


def test_fallback_rounds_are_reported_and_the_tokens_are_those_of_plain_decoding() -> None:
    shape = BundleShape(max_dec=200, max_draft=8)
    plain, _ = run_rows(history_session(shape)[0], [[5, 6]], Decoding(), 150)
    scripts = [[5, 6, *plain[0].tokens]]
    how = Decoding(proposer=ForcedProposer(scripts, lambda *_: 0), drafts=AdaptiveDrafts(DEAR, 8))
    answers, stats = run_rows(history_session(shape)[0], [[5, 6]], how, 150)
    assert answers == plain
    assert stats.fallback_rounds > 100
    assert stats.plain_tokens - stats.fallback_rounds in (0, 1), "the last token may leave no budget for drafts"


def test_measuring_leaves_the_session_as_found_and_gives_every_width() -> None:
    for kind in ("decoder_only", "text_seq2seq", "speech_seq2seq"):
        session, program = history_session(BundleShape(kind=kind, max_dec=40, max_draft=4))
        draft, _ = history_session(BundleShape(kind=kind, max_dec=40))
        model = measure(session, 3, draft)
        assert (len(model.verify), model.verify[0]) == (5, 1.0)
        assert model.draft > 0
        assert {max(step) for step in program.steps} == {1, 2, 3, 4, 5}
        assert session.rows == draft.rows == 0
        assert session.length(0) == session.high_water(0) == 0
        assert measure(session, 1).draft == 0.0


def test_a_bundle_of_few_positions_is_measured_as_far_as_it_goes() -> None:
    session, _ = history_session(BundleShape(max_dec=4, max_draft=3))
    assert len(measure(session, 1).verify) == 3


def test_a_bundle_without_a_step_is_not_measured() -> None:
    session = history_session(BundleShape(max_dec=1, max_draft=0, prefill_chunk=1))[0]
    with pytest.raises(UserInputError, match="a bundle of 1 positions has no step to measure"):
        measure(session, 1)
    assert session.rows == 0


def test_a_session_in_use_is_not_measured() -> None:
    session, _ = history_session()
    session.begin([[3]])
    with pytest.raises(UserInputError, match="between requests"):
        measure(session, 1)
    assert session.rows == 1
