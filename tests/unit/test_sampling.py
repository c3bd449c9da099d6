"""The token rules are transformers' own, and greedy is its argmax."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime_shims.contract.errors import FixedCapacityError
from runtime_shims.contract.manifest import ForcedToken, TokenRules
from runtime_shims.reference.token_rules import NoTokenAllowed, allowed_logits, begin_position, greedy_token

VOCAB = 12


def rules(
    forced: tuple[tuple[int, int], ...] = (),
    suppress: tuple[int, ...] = (),
    begin_suppress: tuple[int, ...] = (),
) -> TokenRules:
    return TokenRules(
        vocab_size=VOCAB,
        eos=(1,),
        pad=None,
        start=(),
        forced=tuple(ForcedToken(position, token) for position, token in forced),
        suppress=suppress,
        begin_suppress=begin_suppress,
    )


def ramp(best: int) -> torch.Tensor:
    """Logits that fall off from `best`."""
    return -((torch.arange(VOCAB) - best) % VOCAB).float()


def test_a_suppressed_token_never_appears() -> None:
    for position in (3, 4, 50):
        assert greedy_token(ramp(4), rules(suppress=(4, 5)), position, prompt_length=3) == 6


def test_begin_suppression_holds_for_the_first_generated_position_only() -> None:
    begin = rules(begin_suppress=(4,))
    assert [greedy_token(ramp(4), begin, position, 3) for position in (3, 4, 5)] == [5, 4, 4]


def test_begin_suppression_waits_for_the_first_token_that_is_not_forced() -> None:
    bos_then_begin = rules(forced=((1, 7),), begin_suppress=(4,))
    assert begin_position(bos_then_begin, prompt_length=1) == 2
    assert [greedy_token(ramp(4), bos_then_begin, position, 1) for position in (1, 2, 3)] == [7, 5, 4]


def test_a_forced_position_inside_the_prompt_changes_nothing() -> None:
    forced = rules(forced=((1, 7),), begin_suppress=(4,))
    assert begin_position(forced, prompt_length=3) == 3
    assert greedy_token(ramp(4), forced, 3, 3) == 5


def test_the_lowest_id_wins_among_equals() -> None:
    assert greedy_token(torch.zeros(VOCAB), rules(), 1, 1) == 0
    assert greedy_token(torch.zeros(VOCAB), rules(suppress=(0, 1)), 1, 1) == 2


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_logits_that_are_not_finite_are_refused(bad: float) -> None:
    logits = torch.zeros(VOCAB)
    logits[3] = bad
    with pytest.raises(NoTokenAllowed, match=r"position 5.*verify"):
        greedy_token(logits, rules(), 5, 1)


def test_suppressing_every_token_is_refused() -> None:
    with pytest.raises(FixedCapacityError, match="no token can be chosen"):
        greedy_token(torch.zeros(VOCAB), rules(suppress=tuple(range(VOCAB))), 5, 1)


def test_the_logits_are_left_as_they_were() -> None:
    logits = ramp(4)
    greedy_token(logits, rules(suppress=(4,)), 3, 3)
    allowed_logits(logits, rules(forced=((3, 7),)), 3, 3)
    assert torch.equal(logits, ramp(4))


id_sets = st.lists(st.integers(0, VOCAB - 1), max_size=5, unique=True).map(tuple)


@settings(max_examples=200, deadline=None)
@given(
    suppress=id_sets,
    begin_suppress=id_sets,
    forced_bos=st.one_of(st.none(), st.integers(0, VOCAB - 1)),
    prompt_length=st.integers(1, 3),
    seed=st.integers(0, 1000),
)
def test_every_choice_equals_transformers(
    suppress: tuple[int, ...],
    begin_suppress: tuple[int, ...],
    forced_bos: int | None,
    prompt_length: int,
    seed: int,
) -> None:
    """Five generated positions against the processors that generate() would build."""
    from transformers.generation.logits_process import (
        ForcedBOSTokenLogitsProcessor,
        LogitsProcessorList,
        SuppressTokensAtBeginLogitsProcessor,
        SuppressTokensLogitsProcessor,
    )

    processors = LogitsProcessorList()
    begin_index = prompt_length
    if forced_bos is not None:
        processors.append(ForcedBOSTokenLogitsProcessor(forced_bos))
        begin_index += 1 if prompt_length == 1 else 0
    if suppress:
        processors.append(SuppressTokensLogitsProcessor(suppress))
    if begin_suppress:
        processors.append(SuppressTokensAtBeginLogitsProcessor(begin_suppress, begin_index))
    ours = rules(((1, forced_bos),) if forced_bos is not None else (), suppress, begin_suppress)
    generator = torch.Generator().manual_seed(seed)
    ids = torch.zeros(1, prompt_length, dtype=torch.int64)
    for position in range(prompt_length, prompt_length + 5):
        logits = torch.randn(1, VOCAB, generator=generator)
        processed = processors(ids, logits.clone())
        if torch.isfinite(processed).any():
            assert greedy_token(logits[0], ours, position, prompt_length) == int(processed.argmax())
            assert torch.equal(allowed_logits(logits[0], ours, position, prompt_length), processed[0])
        ids = torch.cat([ids, torch.zeros(1, 1, dtype=torch.int64)], dim=1)
