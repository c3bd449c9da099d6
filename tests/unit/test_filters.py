"""Processors and filters are transformers' own, the arithmetic is the documented one, and nothing odd is drawn."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from runtime_shims.contract.errors import UserInputError
from runtime_shims.contract.manifest import ForcedToken, TokenRules
from runtime_shims.reference.processors import processed_logits
from runtime_shims.reference.random_stream import RandomStream
from runtime_shims.reference.sampling import Distribution, TokenChooser, filtered_distribution
from runtime_shims.reference.sampling_settings import SamplingSettings
from runtime_shims.reference.token_rules import NoTokenAllowed

VOCAB = 24
EOS = (1, 5)


def rules(forced: tuple[ForcedToken, ...] = (), suppress: tuple[int, ...] = ()) -> TokenRules:
    return TokenRules(VOCAB, EOS, None, (), forced, suppress, ())


def random_logits(seed: int, vocab: int = VOCAB) -> torch.Tensor:
    return torch.randn(vocab, generator=torch.Generator().manual_seed(seed)) * 3


def chooser(stream: int = 0, forced: tuple[ForcedToken, ...] = (), **changed: Any) -> TokenChooser:
    return TokenChooser(SamplingSettings(**changed), rules(forced), 2, RandomStream(3, stream))


histories = st.lists(st.integers(0, VOCAB - 1), min_size=2, max_size=30)


@settings(max_examples=400, deadline=None)
@given(
    history=histories,
    seed=st.integers(0, 10_000),
    penalty=st.sampled_from([1.0, 1.3, 0.7]),
    ngram=st.integers(0, 4),
    min_new=st.sampled_from([0, 3, 12]),
)
def test_processors_equal_those_of_transformers_bit_by_bit(
    history: list[int], seed: int, penalty: float, ngram: int, min_new: int
) -> None:
    from transformers.generation.logits_process import (
        LogitsProcessorList,
        MinNewTokensLengthLogitsProcessor,
        NoRepeatNGramLogitsProcessor,
        RepetitionPenaltyLogitsProcessor,
    )

    stock = LogitsProcessorList()
    if penalty != 1.0:
        stock.append(RepetitionPenaltyLogitsProcessor(penalty))
    if ngram:
        stock.append(NoRepeatNGramLogitsProcessor(ngram))
    if min_new:
        stock.append(MinNewTokensLengthLogitsProcessor(2, min_new, list(EOS)))
    logits = random_logits(seed)
    expected = stock(torch.tensor([history]), logits[None].clone())[0]
    assume(bool(torch.isfinite(expected).any()))
    given_settings = SamplingSettings(repetition_penalty=penalty, no_repeat_ngram=ngram, min_new_tokens=min_new)
    found = processed_logits(logits, history, 2, given_settings, rules())
    assert torch.equal(torch.from_numpy(found), expected)
    assert torch.equal(logits, random_logits(seed)), "the logits are left as they were"


@settings(max_examples=400, deadline=None)
@given(
    seed=st.integers(0, 100_000),
    temperature=st.sampled_from([0.3, 1.0, 1.7]),
    top_k=st.sampled_from([0, 1, 5, 23, 200]),
    top_p=st.sampled_from([1.0, 0.95, 0.6, 0.05]),
    min_p=st.sampled_from([0.0, 0.02, 0.3, 1.0]),
)
def test_filters_keep_what_transformers_keeps_with_the_same_probabilities(
    seed: int, temperature: float, top_k: int, top_p: float, min_p: float
) -> None:
    from transformers.generation.logits_process import (
        LogitsProcessorList,
        MinPLogitsWarper,
        TemperatureLogitsWarper,
        TopKLogitsWarper,
        TopPLogitsWarper,
    )

    stock = LogitsProcessorList([TemperatureLogitsWarper(temperature)])
    if top_k:
        stock.append(TopKLogitsWarper(top_k))
    if top_p < 1.0:
        stock.append(TopPLogitsWarper(top_p))
    if min_p:
        stock.append(MinPLogitsWarper(min_p))
    logits = random_logits(seed, 64)
    scores = stock(torch.zeros(1, 1, dtype=torch.int64), logits[None].clone().double())[0]
    found = filtered_distribution(logits.numpy(), SamplingSettings(temperature, top_k, top_p, min_p))
    assert found.ids.tolist() == torch.isfinite(scores).nonzero().flatten().tolist()
    np.testing.assert_allclose(found.masses, torch.softmax(scores, -1)[found.ids].numpy(), rtol=1e-12)


def test_tokens_that_equal_the_kth_best_are_kept_with_it() -> None:
    logits = np.array([3, 1, 2, 2, 2, 0], np.float32)
    assert filtered_distribution(logits, SamplingSettings(1.0, top_k=2)).ids.tolist() == [0, 2, 3, 4]


def test_top_p_takes_the_lower_id_of_equals_and_always_one_token() -> None:
    even = np.zeros(8, np.float32)
    assert filtered_distribution(even, SamplingSettings(1.0, top_p=0.25)).ids.tolist() == [0, 1]
    assert filtered_distribution(even, SamplingSettings(1.0, top_p=1e-9)).ids.tolist() == [0]
    assert filtered_distribution(even, SamplingSettings(1.0, top_p=1 - 1e-16)).ids.tolist() == list(range(8))


def test_a_tiny_temperature_leaves_the_best_token_and_a_huge_one_all_of_them_alike() -> None:
    logits = np.array([0.0, 1.0, -3e38], np.float32)
    assert filtered_distribution(logits, SamplingSettings(1e-300)).masses.tolist() == [0.0, 1.0, 0.0]
    np.testing.assert_allclose(filtered_distribution(logits[:2], SamplingSettings(1e300)).masses, 0.5)


def test_a_draw_takes_the_first_token_whose_running_sum_exceeds_it() -> None:
    halves = Distribution(np.array([2, 5, 7]), np.array([0.25, 0.0, 0.75]))
    assert [halves.take(u) for u in (0.0, 0.2499999, 0.25, 0.9999999999999999)] == [2, 2, 7, 7]
    assert [halves.mass(token) for token in (2, 5, 6, 7, 9)] == [0.25, 0.0, 0.0, 0.75, 0.0]


def test_masses_need_not_add_up_to_one() -> None:
    rest = Distribution(np.array([4, 6]), np.array([1e-3, 3e-3]))
    assert [rest.take(u) for u in (0.0, 0.249, 0.251, 0.999)] == [4, 4, 6, 6]


def test_a_greedy_choice_takes_no_draw_and_a_sampled_one_exactly_one_forced_tokens_included() -> None:
    forced = (ForcedToken(3, 9),)
    greedy, sampled = chooser(), chooser(forced=forced, temperature=1.0)
    greedy.choose(random_logits(0), [3, 4])
    assert greedy.stream.drawn == 0
    assert sampled.choose(random_logits(0), [3, 4, 5]) == 9
    sampled.choose(random_logits(0), [3, 4, 5, 9])
    assert sampled.stream.drawn == 2


def test_a_temperature_near_zero_draws_the_greedy_token() -> None:
    for seed in range(50):
        logits = random_logits(seed)
        assert chooser(temperature=1e-6).choose(logits, [3, 4]) == chooser().choose(logits, [3, 4])


def test_processors_change_the_greedy_choice_too_and_ties_go_to_the_lowest_id() -> None:
    logits = torch.zeros(VOCAB)
    logits[[4, 6, 7]] = 2.0
    assert chooser().choose(logits, [4, 9]) == 4
    assert chooser(repetition_penalty=1.5).choose(logits, [4, 9]) == 6
    assert chooser(no_repeat_ngram=1).choose(logits, [4, 6]) == 7


def test_a_forced_token_wins_over_every_processor() -> None:
    picky = {"no_repeat_ngram": 1, "min_new_tokens": 5, "repetition_penalty": 2.0}
    assert chooser(forced=(ForcedToken(3, 1),), **picky).choose(random_logits(0), [1, 4, 5]) == 1


@pytest.mark.parametrize("changed", [{}, {"temperature": 1.0}, {"repetition_penalty": 1.2}])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_logits_that_are_not_finite_are_refused_however_tokens_are_chosen(bad: float, changed: dict[str, Any]) -> None:
    logits = random_logits(1)
    logits[7] = bad
    with pytest.raises(NoTokenAllowed, match=r"position 2.*verify"):
        chooser(**changed).choose(logits, [3, 4])


def test_a_token_at_minus_infinity_is_never_drawn() -> None:
    logits = torch.full((VOCAB,), -math.inf)
    logits[[3, 8]] = 0.0
    drawing = chooser(temperature=5.0)
    assert {drawing.choose(logits, [3, 4]) for _ in range(100)} == {3, 8}


def test_forbidding_every_token_names_the_options_that_did_it() -> None:
    with pytest.raises(NoTokenAllowed, match=r"-inf; every token is forbidden; loosen --no-repeat-ngram"):
        chooser(temperature=1.0, no_repeat_ngram=1).choose(random_logits(0), list(range(VOCAB)))


def test_a_penalty_that_overflows_is_refused_by_name() -> None:
    with pytest.raises(NoTokenAllowed, match="--repetition-penalty nearer to 1"):
        chooser(temperature=1.0, repetition_penalty=1e-40).choose(torch.full((VOCAB,), 5.0), [3, 4])


def test_all_wrong_settings_are_named_in_one_line() -> None:
    with pytest.raises(UserInputError) as caught:
        SamplingSettings(-1.0, -2, 0.0, 1.5, 0.0, -1, -1, 0, 2**64)
    options = "temperature top-k top-p min-p repetition-penalty no-repeat-ngram min-new-tokens max-new-tokens seed"
    message = str(caught.value)
    assert [name for name in options.split() if f"--{name} must be" not in message] == []
    assert "\n" not in message


@pytest.mark.parametrize(
    ("changed", "part"),
    [
        ({"temperature": math.nan}, "--temperature must be a number"),
        ({"temperature": "hot"}, "--temperature must be a number"),
        ({"temperature": True}, "--temperature must be a number"),
        ({"temperature": 1.0, "top_k": 2.5}, "--top-k must be a whole number"),
        ({"top_k": 5, "min_p": 0.1}, "--top-k, --min-p without --temperature"),
        ({"min_new_tokens": 5, "max_new_tokens": 4}, "--min-new-tokens 5 is more than --max-new-tokens 4"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changed: dict[str, Any], part: str) -> None:
    with pytest.raises(UserInputError, match=part):
        SamplingSettings(**changed)
