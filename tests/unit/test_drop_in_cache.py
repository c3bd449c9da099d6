"""What a drop-in cache refuses while it is used, what it takes back, and when a request begins and ends."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    DynamicCache,
    FalconConfig,
    PreTrainedModel,
)

from runtime_shims.contract.errors import CapacityExceeded, RollbackTooDeep, UnsupportedSetting, UserInputError
from tests.support import tiny_configs, tiny_models
from tests.support.drop_in import (
    MAX_DEC,
    MAX_DRAFT,
    MAX_ENC,
    FixedCapacity,
    answer,
    buffers,
    check_equal,
    pointers,
    small_cache,
)
from tests.support.tiny_configs import WINDOW


@pytest.fixture(scope="module")
def t5() -> PreTrainedModel:
    return tiny_models.build("t5")


@pytest.fixture(scope="module")
def gemma3() -> PreTrainedModel:
    return tiny_models.build("gemma3")


def step(model: PreTrainedModel, cache: FixedCapacity, tokens: Tensor) -> Tensor:
    """One forward of a decoder-only model: logits float32[B, T, V]."""
    return model(input_ids=tokens, cache=cache, use_cache=True).logits


def test_states_of_another_model_or_dtype_are_refused_at_the_first_step(gemma3: PreTrainedModel) -> None:
    tokens = tiny_models.tokens(1, 3)
    with pytest.raises(UnsupportedSetting, match=r"layer 0 sends keys .* the cache was made for"):
        step(tiny_models.build("qwen2"), small_cache(gemma3), tokens)
    with pytest.raises(UnsupportedSetting, match=r"torch.float32 on cpu, the cache was made for .* torch.float16"):
        step(gemma3, small_cache(gemma3, dtype=torch.float16), tokens)
    with pytest.raises(UnsupportedSetting, match=r"layer 2 of a model, the cache has 2: make it for this model"):
        step(gemma3, _cache_of_two_layers(), tokens)


def _cache_of_two_layers() -> FixedCapacity:
    """Of a model that differs from `gemma3` in nothing else that a cache sees."""
    config = tiny_configs.gemma3()
    config.num_hidden_layers, config.layer_types = 2, config.layer_types[:2]
    return small_cache(AutoModelForCausalLM.from_config(config))


def test_exactly_the_capacity_is_usable_and_the_next_token_is_refused(gemma3: PreTrainedModel) -> None:
    cache = small_cache(gemma3)
    step(gemma3, cache, tiny_models.tokens(2, MAX_DEC - 1))
    step(gemma3, cache, tiny_models.tokens(2, 1))
    kept = [buffer.clone() for buffer in buffers(cache)]
    with pytest.raises(CapacityExceeded, match=r"1 more decoder positions after 40, .*: make it with max_dec >= 41"):
        step(gemma3, cache, tiny_models.tokens(2, 1))
    assert cache.get_seq_length() == MAX_DEC
    assert all(torch.equal(buffer, before) for buffer, before in zip(buffers(cache), kept, strict=True))


def test_a_full_cache_is_told_before_masks_are_made_that_do_not_fit() -> None:
    config = FalconConfig(vocab_size=97, hidden_size=48, num_hidden_layers=1, num_attention_heads=4, alibi=True)
    model = AutoModelForCausalLM.from_config(config).eval()
    with pytest.raises(CapacityExceeded, match=r"1 more decoder positions after 40, .*: make it with max_dec >= 41"):
        model.generate(tiny_models.tokens(1, MAX_DEC - 1), cache=small_cache(model), max_new_tokens=9)


def test_too_many_rows_or_a_prompt_too_long_are_refused_before_anything_is_written(gemma3: PreTrainedModel) -> None:
    cache = small_cache(gemma3)
    with pytest.raises(CapacityExceeded, match=r"4 batch rows .*, the cache holds 3: make it with max_batch >= 4"):
        gemma3.generate(tiny_models.tokens(4, 5), cache=cache, max_new_tokens=2)
    with pytest.raises(CapacityExceeded, match=r"41 more decoder positions after 0, .*max_dec >= 41"):
        gemma3.generate(tiny_models.tokens(1, MAX_DEC + 1), cache=cache, max_new_tokens=2)
    assert cache.get_seq_length() == 0
    assert not any(buffer.any() for buffer in buffers(cache))


def test_a_source_too_long_is_refused_and_leaves_no_request_behind(t5: PreTrainedModel) -> None:
    cache = small_cache(t5)
    with pytest.raises(CapacityExceeded, match="13 encoder positions, the cache holds 12: make it with max_enc >= 13"):
        t5.generate(tiny_models.tokens(1, MAX_ENC + 1), cache=cache, max_new_tokens=2)
    assert cache.get_seq_length() == 0
    assert not any(cache.is_updated.values())
    source = tiny_models.tokens(1, MAX_ENC)
    check_equal(answer(t5, source, cache), answer(t5, source))


def test_repeated_rows_are_held_to_the_capacity_too(gemma3: PreTrainedModel) -> None:
    cache = small_cache(gemma3)
    step(gemma3, cache, tiny_models.tokens(2, 5))
    with pytest.raises(CapacityExceeded, match="4 batch rows"):
        cache.batch_repeat_interleave(2)


@pytest.mark.parametrize("name", ["gemma3", "t5"])
def test_rows_are_repeated_selected_and_reordered_as_in_a_dynamic_cache(name: str) -> None:
    """Past the seam of the rings, and written in place."""
    model = tiny_models.build(name)
    ours = small_cache(model)
    inputs = tiny_models.source(name, 1, MAX_ENC if name == "t5" else 5)
    stock = model.generate(inputs, max_new_tokens=20, eos_token_id=None, return_dict_in_generate=True).cache
    answer(model, inputs, ours, max_new_tokens=20)
    placed = pointers(ours)
    for change in (
        lambda cache: cache.batch_repeat_interleave(3),
        lambda cache: cache.reorder_cache(torch.tensor([2, 0, 0])),
        lambda cache: cache.batch_select_indices(torch.tensor([1, 2])),
    ):
        change(ours)
        change(stock)
        for layer in range(len(ours)):  # a T5 of stock has as many as its encoder
            for mine, theirs in zip(states(ours, layer), states(stock, layer), strict=True):
                assert torch.equal(mine, theirs)
    assert pointers(ours) == placed


def states(cache: Any, layer: int) -> list[Tensor]:
    """The live keys and values of one layer, cross attention's too."""
    parts = [cache]
    if hasattr(cache, "cross_attention_cache"):
        parts = [cache.self_attention_cache, cache.cross_attention_cache]
    return [tensor for part in parts for tensor in (part.layers[layer].keys, part.layers[layer].values)]


def test_crop_takes_both_conventions_at_any_fill_level_and_copies_nothing(gemma3: PreTrainedModel) -> None:
    tokens = tiny_models.tokens(1, 30)
    whole = step(gemma3, DynamicCache(config=gemma3.config), tokens)
    for length in (3, WINDOW, WINDOW + MAX_DRAFT, 25):
        for removed in range(min(length, MAX_DRAFT) + 1):
            for count in (-removed, length - removed) if length > removed else (-removed,):
                cache = small_cache(gemma3)
                for position in range(length):
                    step(gemma3, cache, tokens[:, position : position + 1])
                kept = [buffer.clone() for buffer in buffers(cache)]
                cache.crop(count)
                assert cache.get_seq_length() == length - removed
                assert all(torch.equal(buffer, before) for buffer, before in zip(buffers(cache), kept, strict=True))
                again = step(gemma3, cache, tokens[:, length - removed : length + 1])
                assert torch.allclose(again, whole[:, length - removed : length + 1], atol=2e-5, rtol=0)


def test_a_rollback_too_deep_says_how_deep_and_what_raises_it(gemma3: PreTrainedModel) -> None:
    cache = small_cache(gemma3)
    step(gemma3, cache, tiny_models.tokens(1, 30))
    message = "asked to take 9 of 30 tokens back, at most 5 can be: .* with a max_draft of at least 9"
    for count in (-9, 21):
        with pytest.raises(RollbackTooDeep, match=message):
            cache.crop(count)
    assert cache.get_seq_length() == 30
    cache.crop(-3)
    with pytest.raises(RollbackTooDeep, match="at most 2 can be"):
        cache.crop(-3)
    with pytest.raises(RollbackTooDeep, match="asked to take 99 tokens back, the cache holds 27"):
        cache.crop(-99)
    cache.crop(99)
    cache.crop(0)
    assert cache.get_seq_length() == 27


def test_one_more_draft_position_raises_the_depth_by_one(gemma3: PreTrainedModel) -> None:
    cache = small_cache(gemma3, max_draft=8)
    step(gemma3, cache, tiny_models.tokens(1, 30))
    cache.crop(-9)
    assert cache.get_seq_length() == 21


def test_an_assistant_that_drafts_more_than_max_draft_is_told_so(gemma3: PreTrainedModel) -> None:
    cache = small_cache(gemma3)
    prompt = torch.tensor([[5, 6, 7, 8, 9, 10, 11, 12, 13, 14] * 2])
    with pytest.raises(RollbackTooDeep, match="make the cache with a max_draft of at least"):
        gemma3.generate(prompt, cache=cache, max_new_tokens=20, prompt_lookup_num_tokens=9, do_sample=False)


def test_past_recording_and_a_crop_of_nothing_change_nothing(gemma3: PreTrainedModel) -> None:
    cache = small_cache(gemma3)
    step(gemma3, cache, tiny_models.tokens(1, 30))
    cache.activate_past_recording()
    cache.crop(0)
    assert cache.is_croppable
    assert cache.get_seq_length() == 30


def test_without_generate_a_request_goes_on_until_reset(gemma3: PreTrainedModel) -> None:
    cache = small_cache(gemma3)
    tokens = tiny_models.tokens(2, 12)
    whole = gemma3(tokens).logits
    step(gemma3, cache, tokens[:, :7])
    assert torch.allclose(step(gemma3, cache, tokens[:, 7:]), whole[:, 7:], atol=2e-5, rtol=0)
    with pytest.raises(UserInputError, match=r"a step of 1 batch rows in a request of 2: call reset\(\)"):
        step(gemma3, cache, tokens[:1, :1])
    cache.reset()
    assert torch.allclose(step(gemma3, cache, tokens[:1]), whole[:1], atol=2e-5, rtol=0)


def test_continuing_is_asked_for_once_per_call(gemma3: PreTrainedModel) -> None:
    cache = small_cache(gemma3)
    prompt = tiny_models.tokens(1, 5)
    reply = gemma3.generate(prompt, cache=cache, max_new_tokens=4, eos_token_id=None)
    cache.continue_request()
    gemma3.generate(reply, cache=cache, max_new_tokens=4, eos_token_id=None)
    assert cache.get_seq_length() == 5 + 4 + 4 - 1
    gemma3.generate(prompt, cache=cache, max_new_tokens=4, eos_token_id=None)
    assert cache.get_seq_length() == 5 + 4 - 1


def test_a_reset_takes_back_that_a_request_was_to_go_on(gemma3: PreTrainedModel) -> None:
    cache = small_cache(gemma3)
    answer(gemma3, tiny_models.tokens(1, 9, seed=1), cache)
    cache.continue_request()
    cache.reset()
    prompt = tiny_models.tokens(1, 9, seed=2)
    check_equal(answer(gemma3, prompt, cache), answer(gemma3, prompt))


def test_a_request_with_an_encoder_does_not_go_on(t5: PreTrainedModel) -> None:
    """Stock `generate` writes the whole text of the decoder behind what a cache holds, unless it has a mask."""
    cache = small_cache(t5)
    with pytest.raises(UnsupportedSetting, match="requests with an encoder do not go on: give generate the whole text"):
        cache.continue_request()


def test_a_step_that_was_broken_off_is_not_gone_on_with(
    gemma3: PreTrainedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = small_cache(gemma3)
    prompt = tiny_models.tokens(1, 5)
    with monkeypatch.context() as patch:
        patch.setattr(gemma3.model.layers[2].self_attn.q_proj, "forward", None)
        with pytest.raises(TypeError):
            step(gemma3, cache, prompt)
    with pytest.raises(UserInputError, match=r"broken off half-way: call reset\(\)"):
        cache.continue_request()
    check_equal(answer(gemma3, prompt, cache), answer(gemma3, prompt))


def test_the_deprecated_spelling_of_the_argument_works_too(gemma3: PreTrainedModel) -> None:
    cache = small_cache(gemma3)
    prompt = tiny_models.tokens(2, 9)
    with pytest.warns(FutureWarning, match="past_key_values"):
        given = gemma3.generate(prompt, past_key_values=cache, max_new_tokens=8, eos_token_id=None)
    assert torch.equal(given, gemma3.generate(prompt, max_new_tokens=8, eos_token_id=None))
    assert cache.get_seq_length() == 16


def test_encoder_s_keys_are_projected_once_per_request(t5: PreTrainedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = small_cache(t5)
    projection = t5.decoder.block[0].layer[1].EncDecAttention.k
    calls: list[int] = []
    handle = projection.register_forward_hook(lambda *_: calls.append(1))
    try:
        for expected in (1, 2):
            answer(t5, tiny_models.tokens(2, 7, seed=expected), cache)
            assert len(calls) == expected
    finally:
        handle.remove()


def test_a_forward_that_records_gradients_leaves_none_in_the_cache(t5: PreTrainedModel) -> None:
    cache = small_cache(t5)
    t5.requires_grad_(True)
    try:
        t5(input_ids=tiny_models.tokens(1, 5), decoder_input_ids=tiny_models.tokens(1, 3), cache=cache, use_cache=True)
    finally:
        t5.requires_grad_(False)
    assert cache.get_seq_length() == 3
    assert not any(buffer.requires_grad for buffer in buffers(cache))
