"""The tiny models themselves: they run, they are deterministic, and their logits tell positions apart."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.support.tiny_models import CASES, ENCODER_DECODER, build, source, tokens

LENGTH = 24


def _logits_BTV(name: str, step_BT: Tensor, encoder_input: Tensor | None) -> Tensor:
    model = build(name)
    if encoder_input is None:
        return model(input_ids=step_BT).logits
    key = build(name).get_encoder().main_input_name if name in ENCODER_DECODER else "input_ids"
    return model(**{key: encoder_input}, decoder_input_ids=step_BT).logits


def _encoder_input(name: str, seed: int = 0) -> Tensor | None:
    return source(name, 2, 11, seed) if name in ENCODER_DECODER else None


@pytest.mark.parametrize("name", CASES)
def test_greedy_generation_runs_and_does_not_repeat_one_token(name: str) -> None:
    encoder_input = _encoder_input(name)
    prompt = tokens(2, 5) if encoder_input is None else encoder_input
    generated = build(name).generate(prompt, max_new_tokens=LENGTH, do_sample=False)[:, -LENGTH:]
    assert generated.shape == (2, LENGTH)
    assert generated.unique().numel() >= 5


@pytest.mark.parametrize("name", CASES)
def test_two_builds_give_the_same_logits_and_a_spread_that_is_not_flat(name: str) -> None:
    torch.manual_seed(1)
    first = _logits_BTV(name, tokens(2, LENGTH), _encoder_input(name))
    torch.manual_seed(2)
    second = _logits_BTV(name, tokens(2, LENGTH), _encoder_input(name))
    assert torch.equal(first, second)
    assert 0.3 < first.std(dim=-1).mean() < 10
    assert first.argmax(-1).unique().numel() >= 8


@pytest.mark.parametrize("name", CASES)
def test_an_earlier_token_inside_the_window_changes_later_logits(name: str) -> None:
    step = tokens(2, LENGTH)
    changed = step.clone()
    changed[:, LENGTH - 4] = (step[:, LENGTH - 4] + 1) % 40 + 3
    difference = _logits_BTV(name, step, _encoder_input(name)) - _logits_BTV(
        name, changed, _encoder_input(name)
    )
    assert difference[:, : LENGTH - 4].abs().max() < 1e-5
    assert difference[:, -1].abs().max() > 1e-2


@pytest.mark.parametrize("name", ENCODER_DECODER)
def test_the_source_changes_the_logits(name: str) -> None:
    step = tokens(2, LENGTH)
    first = _logits_BTV(name, step, _encoder_input(name, seed=0))
    second = _logits_BTV(name, step, _encoder_input(name, seed=1))
    assert (first - second).abs().max() > 0.1
