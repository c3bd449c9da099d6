"""What is emitted is distributed as the target says, whatever proposed it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
import torch
from chi_square import chi_square
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime_shims.contract.manifest import TokenRules
from runtime_shims.reference.acceptance import Verdict, judge, residual, stands
from runtime_shims.reference.random_stream import RandomStream
from runtime_shims.reference.sampling import Distribution, TokenChooser, certain
from runtime_shims.reference.sampling_settings import SamplingSettings

RULES = TokenRules(6, (), None, (), (), (), ())
LOGITS = torch.tensor([0.0, 1.0, 2.0, -1.0, 0.5, 1.5])


def of(masses: dict[int, float]) -> Distribution:
    return Distribution(np.array(sorted(masses)), np.array([masses[token] for token in sorted(masses)]))


def chooser(temperature: float, stream: int = 0) -> TokenChooser:
    return TokenChooser(SamplingSettings(temperature), RULES, 1, RandomStream(9, stream))


def masses_of(found: Distribution) -> dict[int, float]:
    return dict(zip(found.ids.tolist(), found.masses.tolist(), strict=True))


def test_a_greedy_draft_stands_if_it_is_the_target_s_choice_and_is_replaced_by_it_otherwise() -> None:
    greedy = chooser(0.0)
    assert judge(greedy, LOGITS, [3], 2, None) == Verdict(2, True)
    assert judge(greedy, LOGITS, [3], 5, None) == Verdict(2, False)
    assert greedy.stream.drawn == 0


def test_a_draft_stands_with_probability_p_over_q() -> None:
    target, proposal = of({1: 0.2, 2: 0.8}), of({1: 0.5, 2: 0.5})
    assert [stands(target, proposal, 1, u) for u in (0.0, 0.39, 0.41, 0.99)] == [True, True, False, False]
    assert all(stands(target, proposal, 2, u) for u in (0.0, 0.5, 1 - 2.0**-53))


def test_a_draft_of_no_mass_never_stands_and_equal_masses_always_do() -> None:
    assert not stands(of({1: 1.0}), of({1: 0.5, 2: 0.5}), 2, 0.0)
    assert not stands(of({1: 1.0}), of({1: 1.0}), 2, 0.0)
    third = of({1: 1 / 3, 2: 2 / 3})
    assert all(stands(third, third, token, 1 - 2.0**-53) for token in (1, 2))


def test_the_residual_is_what_the_proposal_left_over() -> None:
    left = residual(of({1: 0.2, 2: 0.5, 4: 0.3}), of({2: 0.1, 3: 0.6, 4: 0.3}))
    assert masses_of(left) == {1: 0.2, 2: 0.4, 4: 0.0}


def test_a_residual_without_mass_is_the_target_itself() -> None:
    even = of({1: 0.5, 2: 0.5})
    assert residual(even, even) is even


def test_a_draw_next_to_one_finds_a_token_in_masses_too_small_to_be_exact() -> None:
    tiny = 5e-324  # its share by such a draw is rounded up to all of it
    assert of({2: tiny, 5: tiny}).take(1.0 - 2.0**-53) == 5


def test_a_certain_draft_takes_the_draw_and_gives_the_token_of_plain_decoding() -> None:
    plain, drafted = chooser(1.0), chooser(1.0)
    for position in range(200):
        history = [3] * (1 + position)
        verdict = judge(drafted, LOGITS, history, position % 6, None)
        assert verdict == Verdict(plain.choose(LOGITS, history), verdict.token == position % 6)
    assert plain.stream.drawn == drafted.stream.drawn == 200


def test_a_drawn_draft_takes_one_draw_if_it_stands_and_two_if_not() -> None:
    proposal = of(dict.fromkeys(range(6), 1 / 6))
    for stream in range(100):
        judging = chooser(1.0, stream)
        assert judge(judging, LOGITS, [3], 3, proposal).accepted == (judging.stream.drawn == 1)
        assert judging.stream.drawn in (1, 2)


COUNT = 100_000
UNIFORM = dict.fromkeys(range(6), 1 / 6)
NARROW = {3: 0.7, 4: 0.3}
WRONG = {2: 1.0}


def emitted(proposal: dict[int, float] | None, decide: Callable[..., Verdict], count: int = COUNT) -> Counter[object]:
    """Tokens that `count` judgements give; the drafts come from `proposal`, or are token 1 each time."""
    judging, drafting = chooser(1.0, 0), RandomStream(9, 1)
    q = None if proposal is None else of(proposal)
    drafts = (1 if q is None else q.take(drafting.next()) for _ in range(count))
    return Counter(decide(judging, LOGITS, [3], draft, q).token for draft in drafts)


TARGET = {token: float(mass) for token, mass in enumerate(torch.softmax(LOGITS.double(), 0))}


@pytest.mark.parametrize(
    "proposal",
    [None, UNIFORM, NARROW, WRONG],
    ids=["prompt lookup", "a draft model", "a draft without most tokens", "a greedy draft with its own q"],
)
def test_a_hundred_thousand_tokens_follow_the_target_s_distribution(proposal: dict[int, float] | None) -> None:
    statistic, critical = chi_square(emitted(proposal, judge), TARGET)
    assert statistic < critical


def replace_from_target(
    judging: TokenChooser, logits: torch.Tensor, history: list[int], draft: int, q: Distribution
) -> Verdict:
    """The fault of drawing a replacement from the target itself."""
    target = judging.distribution(logits, history)
    if stands(target, q, draft, judging.stream.next()):
        return Verdict(draft, True)
    return Verdict(target.take(judging.stream.next()), False)


def take_greedy_drafts_for_drawn(
    judging: TokenChooser, logits: torch.Tensor, history: list[int], draft: int, q: Distribution
) -> Verdict:
    """The fault of judging a draft that is always the same by a distribution that it was not drawn from."""
    return judge(judging, logits, history, 2, q)


@pytest.mark.parametrize("fault", [replace_from_target, take_greedy_drafts_for_drawn])
def test_the_usual_faults_do_not_pass_as_the_target_s_distribution(fault: Callable[..., Verdict]) -> None:
    statistic, critical = chi_square(emitted(UNIFORM, fault, COUNT // 5), TARGET)
    assert statistic > 2 * critical


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=6, max_size=6), st.lists(st.floats(0, 1), min_size=6, max_size=6))
def test_accepting_and_replacing_adds_up_to_the_target(p_raw: list[float], q_raw: list[float]) -> None:
    """In exact sums over every draft: q * min(1, p/q) + P(rejected) * residual = p."""
    if sum(p_raw) < 1e-3 or sum(q_raw) < 1e-3:
        return
    p = of({token: value / sum(p_raw) for token, value in enumerate(p_raw)})
    q = of({token: value / sum(q_raw) for token, value in enumerate(q_raw)})
    kept = np.minimum(p.masses, q.masses)
    rest = residual(p, q)
    emitted_mass = kept + (1 - kept.sum()) * rest.masses / rest.masses.sum()
    np.testing.assert_allclose(emitted_mass, p.masses, atol=1e-12)


def test_certainty_is_all_mass_on_one_token() -> None:
    assert masses_of(certain(4)) == {4: 1.0}
