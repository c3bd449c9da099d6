"""What a drop-in cache is made of, what it refuses, and when a request begins and ends."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    DynamicCache,
    GPTNeoXConfig,
    MambaConfig,
    PretrainedConfig,
    PreTrainedModel,
    Qwen3NextConfig,
)

from exporter.hf import fixed_capacity_cache
from runtime_shims.contract.errors import CapacityExceeded, RollbackTooDeep, UnsupportedSetting, UserInputError
from tests.support import drop_in_models, tiny_models
from tests.support.drop_in import FixedCapacity, answer, buffers, check_equal, pointers
from tests.support.tiny_configs import _DECODER_SHAPE, HIDDEN, WINDOW

MAX_BATCH, MAX_ENC, MAX_DEC, MAX_DRAFT = 3, 12, 40, 4


@pytest.fixture(scope="module")
def t5() -> PreTrainedModel:
    return tiny_models.build("t5")


@pytest.fixture(scope="module")
def gemma3() -> PreTrainedModel:
    return tiny_models.build("gemma3")


def cache_for(model: PreTrainedModel, **arguments: Any) -> FixedCapacity:
    limits: dict[str, Any] = {"max_batch": MAX_BATCH, "max_dec": MAX_DEC, "max_draft": MAX_DRAFT}
    if model.config.is_encoder_decoder:
        limits["max_enc"] = MAX_ENC
    return fixed_capacity_cache(model, **(limits | arguments))


def step(model: PreTrainedModel, cache: FixedCapacity, tokens: Tensor) -> Tensor:
    """One forward of a decoder-only model: logits float32[B, T, V]."""
    return model(input_ids=tokens, cache=cache, use_cache=True).logits


@pytest.mark.parametrize("name", tiny_models.CASES)
def test_what_was_planned_is_what_is_allocated(name: str) -> None:
    cache = cache_for(tiny_models.build(name))
    made = buffers(cache)
    assert cache.memory_bytes == sum(buffer.nbytes for buffer in made) > 0
    assert {buffer.shape[0] for buffer in made} == {MAX_BATCH}


def test_sliding_layers_hold_their_window_and_the_drafts(gemma3: PreTrainedModel) -> None:
    slots = [buffer.shape[2] for buffer in buffers(cache_for(gemma3))]
    ring, full = WINDOW + MAX_DRAFT, MAX_DEC + MAX_DRAFT
    assert slots == [ring] * 4 + [full] * 2 + [ring] * 2
    assert {buffer.shape[2] for buffer in buffers(cache_for(gemma3, max_dec=3))} == {3 + MAX_DRAFT}


def test_an_encoder_decoder_s_layers_are_its_decoder_s(t5: PreTrainedModel) -> None:
    assert (t5.config.num_layers, t5.config.num_decoder_layers) == (3, 2)
    slots = [buffer.shape[2] for buffer in buffers(cache_for(t5))]
    assert slots == [MAX_DEC + MAX_DRAFT] * 4 + [MAX_ENC] * 4


def test_it_says_what_it_holds(t5: PreTrainedModel, gemma3: PreTrainedModel) -> None:
    expected = "FixedCapacityEncoderDecoderCache(max_batch=3, max_enc=12, max_dec=40, max_draft=4, 129.0 kB)"
    assert repr(cache_for(t5)) == expected
    assert "max_enc" not in repr(cache_for(gemma3))


def test_buffers_have_the_dtype_and_device_that_were_asked_for(gemma3: PreTrainedModel) -> None:
    cache = cache_for(gemma3, dtype=torch.float16, device="meta")
    assert {(buffer.dtype, buffer.device.type) for buffer in buffers(cache)} == {(torch.float16, "meta")}


WRONG = [
    ("t5", {"max_enc": None}, "an encoder-decoder model needs max_enc"),
    ("gemma3", {"max_enc": 5}, "a decoder-only model has no encoder: leave max_enc out"),
    ("gemma3", {"max_batch": 0}, "max_batch must be an integer >= 1, got 0"),
    ("gemma3", {"max_dec": 2.5}, "max_dec must be an integer >= 1, got 2.5"),
    ("gemma3", {"max_draft": -1}, "max_draft must be an integer >= 0, got -1"),
    ("gemma3", {"dtype": "float16"}, "dtype must be a floating-point torch.dtype, got 'float16'"),
    ("gemma3", {"dtype": torch.int8}, "dtype must be a floating-point torch.dtype, got torch.int8"),
]


@pytest.mark.parametrize(("name", "arguments", "fault"), WRONG)
def test_a_wrong_argument_is_one_line(name: str, arguments: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match="a fixed-capacity cache for") as caught:
        cache_for(tiny_models.build(name), **arguments)
    assert fault in str(caught.value)
    assert "\n" not in str(caught.value)


def test_all_faults_are_listed_at_once(t5: PreTrainedModel) -> None:
    with pytest.raises(ValueError, match="a fixed-capacity cache for T5") as caught:
        cache_for(t5, max_batch=True, max_enc=None, max_dec="many", max_draft=None)
    for name in ("max_batch", "max_enc", "max_dec", "max_draft"):
        assert name in str(caught.value)


def qwen3_next() -> PretrainedConfig:
    layers = ["linear_attention", "full_attention", "linear_attention"]
    return Qwen3NextConfig(**_DECODER_SHAPE, num_hidden_layers=3, layer_types=layers, num_experts=2)


UNSUPPORTED = [
    (qwen3_next, "2 of 3 layers are linear_attention, only full_attention and sliding_attention are supported"),
    (lambda: MambaConfig(hidden_size=HIDDEN, num_hidden_layers=2), "2 of 2 layers are"),
    (drop_in_models.deepseek_config, "latent attention (kv_lora_rank)"),
]


@pytest.mark.parametrize(("config", "fault"), UNSUPPORTED)
def test_layers_that_are_neither_full_nor_sliding_are_refused_by_name(config: Any, fault: str) -> None:
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config())
    with pytest.raises(ValueError, match=r"a fixed-capacity cache for \w+: ") as caught:
        fixed_capacity_cache(model, max_dec=8)
    assert fault in str(caught.value)


def test_a_family_that_the_exporter_does_not_know_needs_no_row() -> None:
    config = GPTNeoXConfig(
        vocab_size=64, hidden_size=HIDDEN, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48
    )
    model = drop_in_models.seeded(AutoModelForCausalLM.from_config(config))
    prompt = tiny_models.tokens(2, 9)
    check_equal(answer(model, prompt, fixed_capacity_cache(model, max_batch=2, max_dec=40)), answer(model, prompt))


def test_a_model_spread_over_devices_is_refused(gemma3: PreTrainedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gemma3, "hf_device_map", {"model": 0, "lm_head": "cpu"}, raising=False)
    with pytest.raises(ValueError, match="the model is spread over 0, cpu, one device is supported"):
        cache_for(gemma3)


def test_states_of_another_model_or_dtype_are_refused_at_the_first_step(gemma3: PreTrainedModel) -> None:
    tokens = tiny_models.tokens(1, 3)
    with pytest.raises(UnsupportedSetting, match=r"layer 0 sends keys .* the cache was made for"):
        step(tiny_models.build("qwen2"), cache_for(gemma3), tokens)
    with pytest.raises(UnsupportedSetting, match=r"torch.float32 on cpu, the cache was made for .* torch.float16"):
        step(gemma3, cache_for(gemma3, dtype=torch.float16), tokens)


def test_exactly_the_capacity_is_usable_and_the_next_token_is_refused(gemma3: PreTrainedModel) -> None:
    cache = cache_for(gemma3)
    step(gemma3, cache, tiny_models.tokens(2, MAX_DEC - 1))
    step(gemma3, cache, tiny_models.tokens(2, 1))
    kept = [buffer.clone() for buffer in buffers(cache)]
    with pytest.raises(CapacityExceeded, match=r"1 more decoder positions after 40, .*: make it with max_dec >= 41"):
        step(gemma3, cache, tiny_models.tokens(2, 1))
    assert cache.get_seq_length() == MAX_DEC
    assert all(torch.equal(buffer, before) for buffer, before in zip(buffers(cache), kept, strict=True))


def test_too_many_rows_or_a_prompt_too_long_are_refused_before_anything_is_written(gemma3: PreTrainedModel) -> None:
    cache = cache_for(gemma3)
    with pytest.raises(CapacityExceeded, match=r"4 batch rows .*, the cache holds 3: make it with max_batch >= 4"):
        gemma3.generate(tiny_models.tokens(4, 5), cache=cache, max_new_tokens=2)
    with pytest.raises(CapacityExceeded, match=r"41 more decoder positions after 0, .*max_dec >= 41"):
        gemma3.generate(tiny_models.tokens(1, MAX_DEC + 1), cache=cache, max_new_tokens=2)
    assert cache.get_seq_length() == 0
    assert not any(buffer.any() for buffer in buffers(cache))


def test_a_source_too_long_is_refused_and_leaves_no_request_behind(t5: PreTrainedModel) -> None:
    cache = cache_for(t5)
    with pytest.raises(CapacityExceeded, match="13 encoder positions, the cache holds 12: make it with max_enc >= 13"):
        t5.generate(tiny_models.tokens(1, MAX_ENC + 1), cache=cache, max_new_tokens=2)
    assert cache.get_seq_length() == 0
    assert not any(cache.is_updated.values())
    source = tiny_models.tokens(1, MAX_ENC)
    check_equal(answer(t5, source, cache), answer(t5, source))


def test_repeated_rows_are_held_to_the_capacity_too(gemma3: PreTrainedModel) -> None:
    cache = cache_for(gemma3)
    step(gemma3, cache, tiny_models.tokens(2, 5))
    with pytest.raises(CapacityExceeded, match="4 batch rows"):
        cache.batch_repeat_interleave(2)


@pytest.mark.parametrize("name", ["gemma3", "t5"])
def test_rows_are_repeated_selected_and_reordered_as_in_a_dynamic_cache(name: str) -> None:
    """Past the seam of the rings, and written in place."""
    model = tiny_models.build(name)
    ours = cache_for(model)
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
                cache = cache_for(gemma3)
                for position in range(length):
                    step(gemma3, cache, tokens[:, position : position + 1])
                kept = [buffer.clone() for buffer in buffers(cache)]
                cache.crop(count)
                assert cache.get_seq_length() == length - removed
                assert all(torch.equal(buffer, before) for buffer, before in zip(buffers(cache), kept, strict=True))
                again = step(gemma3, cache, tokens[:, length - removed : length + 1])
                assert torch.allclose(again, whole[:, length - removed : length + 1], atol=2e-5, rtol=0)


def test_a_rollback_too_deep_says_how_deep_and_what_raises_it(gemma3: PreTrainedModel) -> None:
    cache = cache_for(gemma3)
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
    cache = cache_for(gemma3, max_draft=8)
    step(gemma3, cache, tiny_models.tokens(1, 30))
    cache.crop(-9)
    assert cache.get_seq_length() == 21


def test_an_assistant_that_drafts_more_than_max_draft_is_told_so(gemma3: PreTrainedModel) -> None:
    cache = cache_for(gemma3)
    prompt = torch.tensor([[5, 6, 7, 8, 9, 10, 11, 12, 13, 14] * 2])
    with pytest.raises(RollbackTooDeep, match="make the cache with a max_draft of at least"):
        gemma3.generate(prompt, cache=cache, max_new_tokens=20, prompt_lookup_num_tokens=9, do_sample=False)


def test_past_recording_and_a_crop_of_nothing_change_nothing(gemma3: PreTrainedModel) -> None:
    cache = cache_for(gemma3)
    step(gemma3, cache, tiny_models.tokens(1, 30))
    cache.activate_past_recording()
    cache.crop(0)
    assert cache.is_croppable
    assert cache.get_seq_length() == 30


def test_without_generate_a_request_goes_on_until_reset(gemma3: PreTrainedModel) -> None:
    cache = cache_for(gemma3)
    tokens = tiny_models.tokens(2, 12)
    whole = gemma3(tokens).logits
    step(gemma3, cache, tokens[:, :7])
    assert torch.allclose(step(gemma3, cache, tokens[:, 7:]), whole[:, 7:], atol=2e-5, rtol=0)
    with pytest.raises(UserInputError, match=r"a step of 1 batch rows in a request of 2: call reset\(\)"):
        step(gemma3, cache, tokens[:1, :1])
    cache.reset()
    assert torch.allclose(step(gemma3, cache, tokens[:1]), whole[:1], atol=2e-5, rtol=0)


def test_continuing_is_asked_for_once_per_call(gemma3: PreTrainedModel) -> None:
    cache = cache_for(gemma3)
    prompt = tiny_models.tokens(1, 5)
    reply = gemma3.generate(prompt, cache=cache, max_new_tokens=4, eos_token_id=None)
    cache.continue_request()
    gemma3.generate(reply, cache=cache, max_new_tokens=4, eos_token_id=None)
    assert cache.get_seq_length() == 5 + 4 + 4 - 1
    gemma3.generate(prompt, cache=cache, max_new_tokens=4, eos_token_id=None)
    assert cache.get_seq_length() == 5 + 4 - 1


def test_a_reset_takes_back_that_a_request_was_to_go_on(t5: PreTrainedModel) -> None:
    cache = cache_for(t5)
    answer(t5, tiny_models.tokens(1, 9, seed=1), cache)
    cache.continue_request()
    cache.reset()
    source = tiny_models.tokens(1, 9, seed=2)
    check_equal(answer(t5, source, cache), answer(t5, source))


def test_a_step_that_was_broken_off_is_not_gone_on_with(
    gemma3: PreTrainedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = cache_for(gemma3)
    prompt = tiny_models.tokens(1, 5)
    with monkeypatch.context() as patch:
        patch.setattr(gemma3.model.layers[2].self_attn.q_proj, "forward", None)
        with pytest.raises(TypeError):
            step(gemma3, cache, prompt)
    with pytest.raises(UserInputError, match=r"broken off half-way: call reset\(\)"):
        cache.continue_request()
    check_equal(answer(gemma3, prompt, cache), answer(gemma3, prompt))


def test_the_deprecated_spelling_of_the_argument_works_too(gemma3: PreTrainedModel) -> None:
    cache = cache_for(gemma3)
    prompt = tiny_models.tokens(2, 9)
    with pytest.warns(FutureWarning, match="past_key_values"):
        given = gemma3.generate(prompt, past_key_values=cache, max_new_tokens=8, eos_token_id=None)
    assert torch.equal(given, gemma3.generate(prompt, max_new_tokens=8, eos_token_id=None))
    assert cache.get_seq_length() == 16


def test_encoder_s_keys_are_projected_once_per_request(t5: PreTrainedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = cache_for(t5)
    projection = t5.decoder.block[0].layer[1].EncDecAttention.k
    calls: list[int] = []
    handle = projection.register_forward_hook(lambda *_: calls.append(1))
    try:
        for expected in (1, 2):
            answer(t5, tiny_models.tokens(2, 7, seed=expected), cache)
            assert len(calls) == expected
    finally:
        handle.remove()
