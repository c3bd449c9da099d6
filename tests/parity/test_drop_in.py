"""Stock `generate` with a cache of ours equals stock `generate` without one: every family, any shape, any decoding.

One cache serves all requests of a test, largest first, and its buffers are NaN where nothing was written: what a
request leaves behind, or a slot that nobody wrote, would show.
"""

from __future__ import annotations

import copy
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from exporter.hf import fixed_capacity_cache
from tests.support import drop_in_models, tiny_models
from tests.support.drop_in import Answer, FixedCapacity, answer, check_equal, pointers, spoil
from tests.support.tiny_models import CASES, ENCODER_DECODER, OWN_CROSS_CACHE

MAX_BATCH, MAX_ENC, MAX_DEC, MAX_DRAFT = 4, 24, 64, 7
SHAPES = ((4, 24), (1, 1), (2, 13), (4, 1), (1, 24))
SLIDING = ("mistral", "gemma2", "gemma3", "gemma3n")
PROMPT = 14


def is_encoder_decoder(name: str) -> bool:
    return name in ENCODER_DECODER


def cache_for(model: PreTrainedModel, **limits: int) -> FixedCapacity:
    limits = {"max_batch": MAX_BATCH, "max_dec": MAX_DEC, "max_draft": MAX_DRAFT} | limits
    cache = fixed_capacity_cache(model, max_enc=MAX_ENC if model.config.is_encoder_decoder else None, **limits)
    spoil(cache)
    return cache


def ragged_mask(name: str, batch: int, length: int) -> Tensor:
    """Row i is i tokens shorter than the first: padded on the right for encoders, on the left for decoders."""
    mask = torch.ones(batch, length, dtype=torch.int64)
    for row in range(batch):
        padding = min(row, length - 1)
        mask[row, length - padding :] = 0
    return mask if is_encoder_decoder(name) else mask.flip(1)


def request(name: str, batch: int, length: int) -> tuple[Tensor, dict[str, Any]]:
    """Inputs and the mask they need; Whisper takes none."""
    inputs = tiny_models.source(name, batch, length, seed=batch)
    return inputs, {} if name == "whisper" else {"attention_mask": ragged_mask(name, batch, inputs.shape[1])}


@pytest.mark.parametrize("name", CASES)
def test_any_batch_and_length_gives_the_answer_without_a_cache_of_ours(name: str) -> None:
    model = tiny_models.build(name)
    cache = cache_for(model)
    placed = pointers(cache)
    for batch, length in SHAPES:
        inputs, masks = request(name, batch, length)
        check_equal(answer(model, inputs, cache, **masks), answer(model, inputs, **masks))
    assert pointers(cache) == placed


@pytest.mark.parametrize("name", ["t5", "whisper", "gemma3"])
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_both_attention_implementations_agree(name: str, attention: str) -> None:
    model = tiny_models.build(name)
    model.set_attn_implementation(attention)
    cache = cache_for(model)
    for batch, length in SHAPES[:3]:
        inputs, masks = request(name, batch, length)
        check_equal(answer(model, inputs, cache, **masks), answer(model, inputs, **masks))


def test_whisper_s_own_generate_takes_it() -> None:
    model = tiny_models.build("whisper")
    cache = cache_for(model)
    for batch in (3, 1):
        features = tiny_models.source("whisper", batch, 0, seed=batch)
        expected = model.generate(features, max_new_tokens=24)
        assert torch.equal(model.generate(features, max_new_tokens=24, cache=cache), expected)


@pytest.mark.parametrize("name", ["t5", "whisper", "llama", "gemma3"])
def test_beams_and_returned_sequences_are_rows_like_others(name: str) -> None:
    model = tiny_models.build(name)
    cache = cache_for(model, max_batch=6)
    placed = pointers(cache)
    inputs, masks = request(name, 2, PROMPT)
    beams = {"num_beams": 3, "num_return_sequences": 2, "max_new_tokens": 20, **masks}
    given, expected = answer(model, inputs, cache, **beams), answer(model, inputs, **beams)
    assert torch.equal(given.tokens, expected.tokens)
    assert pointers(cache) == placed


def assisted(model: PreTrainedModel, cache: FixedCapacity | None, **settings: Any) -> Answer:
    prompt = tiny_models.tokens(1, PROMPT, seed=3)
    return answer(model, prompt, cache, max_new_tokens=40, **settings)


@pytest.mark.parametrize("name", ["t5", "whisper", *SLIDING])
def test_an_assistant_model_changes_no_token(name: str) -> None:
    model = tiny_models.build(name)
    assistant = drop_in_models.disturbed(copy.deepcopy(model), like=model)
    cache = cache_for(model)
    inputs = tiny_models.source(name, 1, PROMPT, seed=3)
    greedy = answer(model, inputs, max_new_tokens=40)
    given = answer(model, inputs, cache, max_new_tokens=40, assistant_model=assistant)
    assert torch.equal(given.tokens, greedy.tokens)
    check_equal(given, answer(model, inputs, max_new_tokens=40, assistant_model=assistant))


@pytest.mark.parametrize("name", ["t5", *SLIDING])
def test_prompt_lookup_changes_no_token(name: str) -> None:
    model = tiny_models.build(name)
    cache = cache_for(model)
    inputs = tiny_models.source(name, 1, PROMPT, seed=3)
    given = answer(model, inputs, cache, max_new_tokens=40, prompt_lookup_num_tokens=7)
    assert torch.equal(given.tokens, answer(model, inputs, max_new_tokens=40).tokens)


def test_drafts_may_hang_over_the_capacity_and_what_is_kept_fills_it() -> None:
    model = tiny_models.build("gemma3")
    cache = cache_for(model, max_dec=PROMPT + 40 - 1, max_draft=7)  # the last token's keys are never needed
    given = assisted(model, cache, prompt_lookup_num_tokens=7)
    assert torch.equal(given.tokens, assisted(model, None).tokens)


def test_gemma_4_shares_keys_and_values_and_drafts_from_them() -> None:
    model, drafter = drop_in_models.gemma4(), drop_in_models.gemma4_assistant()
    cache = cache_for(model)
    assert len(cache.owners) == 4
    check_equal(assisted(model, cache), assisted(model, None))
    given = assisted(model, cache, assistant_model=drafter)
    assert torch.equal(given.tokens, assisted(model, None).tokens)
    check_equal(given, assisted(model, None, assistant_model=drafter))


def test_a_head_that_predicts_more_tokens_changes_none(tmp_path: Path) -> None:
    model = drop_in_models.mellum_with_mtp(tmp_path)
    cache = cache_for(model)
    given = assisted(model, cache, use_mtp=True)
    assert torch.equal(given.tokens, assisted(model, None).tokens)
    check_equal(given, assisted(model, None, use_mtp=True))


@pytest.mark.parametrize("chunk", [1, 3, 8, 30])
def test_a_prompt_may_come_in_chunks_narrower_or_wider_than_the_ring(chunk: int) -> None:
    model = tiny_models.build("gemma3")
    cache = cache_for(model, max_dec=128, max_draft=2)  # ten slots, for a window of eight
    prompt = tiny_models.tokens(2, 60, seed=5)
    given = answer(model, prompt, cache, prefill_chunk_size=chunk)
    check_equal(given, answer(model, prompt))


def test_a_conversation_goes_on_without_computing_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_models.build("gemma3")
    cache = cache_for(model)
    first = answer(model, tiny_models.tokens(1, PROMPT), cache, max_new_tokens=10).tokens
    question = torch.cat([first, tiny_models.tokens(1, 5, seed=9)], dim=1)
    expected = answer(model, question, max_new_tokens=10)
    widths: list[int] = []
    forward = model.forward

    @wraps(forward)  # `generate` reads the signature
    def counted(*args: Any, **kwargs: Any) -> Any:
        widths.append(kwargs["input_ids"].shape[1])
        return forward(*args, **kwargs)

    monkeypatch.setattr(model, "forward", counted)
    cache.continue_request()
    check_equal(answer(model, question, cache, max_new_tokens=10), expected)
    assert widths[0] == 6  # the last answer's last token, and the five that are new
    widths.clear()
    check_equal(answer(model, question, cache, max_new_tokens=10), expected)
    assert widths[0] == question.shape[1]


def test_a_request_that_goes_on_by_mistake_is_not_the_same() -> None:
    """The control: what the tests above would see if requests were not told apart."""
    model = tiny_models.build("gemma3")
    cache = cache_for(model)
    one, other = tiny_models.tokens(1, 9, seed=1), tiny_models.tokens(1, 20, seed=2)
    answer(model, one, cache, max_new_tokens=4)
    cache.continue_request()
    assert answer(model, other, cache, max_new_tokens=4).difference(answer(model, other, max_new_tokens=4)) > 1e-3


@pytest.mark.parametrize("drafts", ["prompt lookup", "assistant"])
def test_a_conversation_goes_on_with_drafts(drafts: str) -> None:
    """Stock transformers writes the whole text behind what the cache holds."""
    model = tiny_models.build("gemma3")
    cache = cache_for(model)
    first = answer(model, tiny_models.tokens(1, PROMPT), cache, max_new_tokens=10).tokens
    question = torch.cat([first, first[:, :9]], dim=1)
    asked = {"prompt_lookup_num_tokens": 3} if drafts == "prompt lookup" else {"assistant_model": model}
    cache.continue_request()
    assert torch.equal(
        model.generate(question, cache=cache, max_new_tokens=10, **asked), model.generate(question, max_new_tokens=10)
    )
    assert cache.get_seq_length() == question.shape[1] + 9


@pytest.mark.parametrize("name", OWN_CROSS_CACHE)
def test_a_model_whose_generate_makes_a_cross_cache_of_its_own_uses_the_one_it_was_given(name: str) -> None:
    model = tiny_models.build(name)
    cache = cache_for(model)
    inputs = tiny_models.source(name, 2, 9)
    answer(model, inputs, cache)
    assert [layer.length for layer in cache.cross_attention_cache.layers] == [9] * len(cache.owners)
