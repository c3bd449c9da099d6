"""What a drop-in cache is made of, and which models and arguments it is not made for."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    GPTNeoXConfig,
    MambaConfig,
    PretrainedConfig,
    PreTrainedModel,
    Qwen3NextConfig,
)

from exporter.hf import fixed_capacity_cache
from tests.support import drop_in_models, tiny_models
from tests.support.drop_in import MAX_BATCH, MAX_DEC, MAX_DRAFT, MAX_ENC, answer, buffers, check_equal, small_cache
from tests.support.tiny_configs import DECODER_SHAPE, HIDDEN, WINDOW


@pytest.fixture(scope="module")
def t5() -> PreTrainedModel:
    return tiny_models.build("t5")


@pytest.fixture(scope="module")
def gemma3() -> PreTrainedModel:
    return tiny_models.build("gemma3")


@pytest.mark.parametrize("name", [name for name in tiny_models.CASES if name not in tiny_models.OWN_CROSS_CACHE])
def test_what_was_planned_is_what_is_allocated(name: str) -> None:
    cache = small_cache(tiny_models.build(name))
    made = buffers(cache)
    assert cache.memory_bytes == sum(buffer.nbytes for buffer in made) > 0
    assert {buffer.shape[0] for buffer in made} == {MAX_BATCH}


def test_sliding_layers_hold_their_window_and_the_drafts(gemma3: PreTrainedModel) -> None:
    slots = [buffer.shape[2] for buffer in buffers(small_cache(gemma3))]
    ring, full = WINDOW + MAX_DRAFT, MAX_DEC + MAX_DRAFT
    assert slots == [ring] * 4 + [full] * 2 + [ring] * 2
    assert {buffer.shape[2] for buffer in buffers(small_cache(gemma3, max_dec=3))} == {3 + MAX_DRAFT}


def test_an_encoder_decoder_s_layers_are_its_decoder_s(t5: PreTrainedModel) -> None:
    assert (t5.config.num_layers, t5.config.num_decoder_layers) == (3, 2)
    slots = [buffer.shape[2] for buffer in buffers(small_cache(t5))]
    assert slots == [MAX_DEC + MAX_DRAFT] * 4 + [MAX_ENC] * 4


def test_it_says_what_it_holds(t5: PreTrainedModel, gemma3: PreTrainedModel) -> None:
    expected = "FixedCapacityEncoderDecoderCache(max_batch=3, max_enc=12, max_dec=40, max_draft=4, 129.0 kB)"
    assert repr(small_cache(t5)) == expected
    assert "max_enc" not in repr(small_cache(gemma3))


def test_buffers_have_the_dtype_and_device_that_were_asked_for(gemma3: PreTrainedModel) -> None:
    cache = small_cache(gemma3, dtype=torch.float16, device="meta")
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
        small_cache(tiny_models.build(name), **arguments)
    assert fault in str(caught.value)
    assert "\n" not in str(caught.value)


def test_all_faults_are_listed_at_once(t5: PreTrainedModel) -> None:
    with pytest.raises(ValueError, match="a fixed-capacity cache for T5") as caught:
        small_cache(t5, max_batch=True, max_enc=None, max_dec="many", max_draft=None)
    for name in ("max_batch", "max_enc", "max_dec", "max_draft"):
        assert name in str(caught.value)


def qwen3_next() -> PretrainedConfig:
    layers = ["linear_attention", "full_attention", "linear_attention"]
    return Qwen3NextConfig(**DECODER_SHAPE, num_hidden_layers=3, layer_types=layers, num_experts=2)


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
        small_cache(gemma3)
