"""The facts that `ModelSpec` reads from a config, held against published numbers and against real models."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import AutoConfig, PretrainedConfig, PreTrainedModel

from exporter.spec.model_spec import EncoderSpec, ModelSpec, RelativeBias
from exporter.spec.weights import random_model
from recipes.geometries.index import GEOMETRIES

PUBLISHED_PARAMETERS = {
    "t5-small": 60_506_624,
    "t5-base": 222_903_552,
    "flan-t5-small": 76_961_152,
    "flan-t5-base": 247_577_856,
    "mt5-small": 300_176_768,
    "bart-base": 139_420_416,
    "bart-base-cnn": 139_420_416,
    "bart-large-cnn": 406_290_432,
    "opus-mt-en-de": 74_410_496,
    "whisper-tiny": 37_760_640,
    "whisper-tiny.en": 37_760_256,
    "whisper-base": 72_593_920,
    "whisper-base.en": 72_593_408,
    "whisper-small": 241_734_912,
    "whisper-small.en": 241_734_144,
    "distil-small.en": 166_132_224,
    "distil-medium.en": 394_375_168,
    "moonshine-tiny": 27_092_736,
    "moonshine-base": 61_513_920,
    "gpt2": 124_439_808,
    "smollm2-135m": 134_515_008,
    "smollm2-135m-instruct": 134_515_008,
    "smollm2-360m": 361_821_120,
    "smollm2-360m-instruct": 361_821_120,
    "llama-3.2-1b": 1_235_814_400,
    "llama-3.2-1b-instruct": 1_235_814_400,
    "qwen2.5-0.5b": 494_032_768,
    "qwen3-0.6b": 596_049_920,
    "mistral-7b-v0.1": 7_241_732_096,
    "gemma-2-2b": 2_614_341_888,
    "gemma-3-270m": 268_098_176,
    "gemma-3-270m-it": 268_098_176,
    "gemma-3-1b": 999_885_952,
    "gemma-3-1b-it": 999_885_952,
    "gemma-4-e2b": 4_628_569_344,
}
"""Learned values of the published checkpoints (of Gemma 4's text model), tied ones once."""

SMALL_STACKS = {
    "num_layers": 3,
    "num_decoder_layers": 2,
    "encoder_layers": 3,
    "decoder_layers": 2,
    "encoder_num_hidden_layers": 3,
    "decoder_num_hidden_layers": 2,
    "num_hidden_layers": 7,
    "n_layer": 2,
}
"""Fewer layers, and other numbers of them in encoder and decoder; widths stay as published."""


def config_of(name: str, **changes: Any) -> PretrainedConfig:
    return AutoConfig.for_model(**(GEOMETRIES[name]() | changes))


def small_config_of(name: str) -> PretrainedConfig:
    """The published widths with few layers and a vocabulary of 128."""
    geometry = GEOMETRIES[name]()
    changes = {key: value for key, value in SMALL_STACKS.items() if key in geometry}
    ids = {
        key: min(value, 127) if isinstance(value, int) else []
        for key, value in geometry.items()
        if key.endswith(("_token_id", "_tokens"))
    }
    vocabulary = {key: 128 for key in geometry if key.endswith("vocab_size")}
    return config_of(name, **changes, **ids, **vocabulary)


@pytest.mark.parametrize("name", GEOMETRIES)
def test_the_parameter_count_is_the_published_one(name: str) -> None:
    assert ModelSpec.from_config(config_of(name)).parameter_count == PUBLISHED_PARAMETERS[name]


def run_once(model: PreTrainedModel, spec: ModelSpec) -> Any:
    """One forward pass of two decoder tokens that fills the model's own cache."""
    tokens = torch.ones(1, 2, dtype=torch.long)
    inputs: dict[str, torch.Tensor] = {"input_ids": tokens}
    if spec.kind == "text_seq2seq":
        inputs["decoder_input_ids"] = tokens
    elif spec.encoder is not None and spec.encoder.sound is not None:
        inputs = {"input_values": torch.zeros(1, 1279), "decoder_input_ids": tokens}
    elif spec.kind == "speech_seq2seq":
        assert spec.encoder is not None
        assert spec.encoder.source_shape is not None
        inputs = {"input_features": torch.zeros(1, *spec.encoder.source_shape), "decoder_input_ids": tokens}
    with torch.no_grad():
        return model(**inputs, use_cache=True)


@pytest.mark.parametrize(
    "name",
    [
        "t5-small",
        "mt5-small",
        "bart-base",
        "opus-mt-en-de",
        "whisper-tiny.en",
        "moonshine-tiny",
        "gpt2",
        "smollm2-135m",
        "qwen3-0.6b",
        "gemma-3-270m",
    ],
)
def test_every_layer_has_the_heads_and_sizes_of_the_cache_that_the_model_fills(name: str) -> None:
    config = small_config_of(name)
    spec = ModelSpec.from_config(config)
    output = run_once(random_model(config, spec, seed=0), spec)
    cache = output.cache
    own = cache if spec.encoder is None else cache.self_attention_cache
    found = [(layer.keys.shape[1], layer.keys.shape[3], layer.values.shape[3]) for layer in own.layers]
    assert found == [(layer.kv_heads, layer.key_dim, layer.value_dim) for layer in spec.layers]
    assert output.logits.shape[2] == spec.vocab_size
    if spec.encoder is not None:
        cross = [(layer.keys.shape[1], layer.keys.shape[2]) for layer in cache.cross_attention_cache.layers]
        positions = spec.encoder.fixed_length or 2
        assert cross == [(layer.query_heads, positions) for layer in spec.layers]


def test_gemma_3_slides_on_five_of_six_layers() -> None:
    spec = ModelSpec.from_config(config_of("gemma-3-270m"))
    assert [layer.index for layer in spec.layers if layer.kind == "full"] == [5, 11, 17]
    assert {layer.window for layer in spec.layers if layer.kind == "sliding"} == {512}
    assert {(layer.query_heads, layer.kv_heads, layer.key_dim) for layer in spec.layers} == {(4, 1, 256)}
    assert spec.architecture == "Gemma3ForCausalLM"
    assert spec.encoder is None


def test_the_last_layers_of_gemma_4_read_the_last_caches_of_their_type() -> None:
    spec = ModelSpec.from_config(config_of("gemma-4-e2b"))
    assert [layer.index for layer in spec.cache_owners] == list(range(15))
    assert {layer.shares_kv_with for layer in spec.layers[15:]} == {13, 14}
    shapes = {(layer.kind, layer.window, layer.key_dim, layer.shares_kv_with) for layer in spec.layers[13:]}
    own = {("sliding", 512, 256, None), ("full", None, 512, None)}
    assert shapes == own | {("sliding", 512, 256, 13), ("full", None, 512, 14)}


def test_gemma_3n_keeps_twenty_caches_for_its_layers_and_every_weight_is_counted() -> None:
    """The class's own geometry is E4B's: 35 layers, the last 15 of which read keys and values of the 19th and 20th."""
    spec = ModelSpec.from_config(AutoConfig.for_model("gemma3n_text"))
    assert [layer.index for layer in spec.cache_owners] == list(range(20))
    shared = [layer.shares_kv_with for layer in spec.layers[20:]]
    assert shared == [18, 18, 18, 18, 19] * 3
    assert {(layer.kind, layer.window, layer.kv_heads, layer.key_dim) for layer in spec.layers} == {
        ("sliding", 512, 2, 256),
        ("full", None, 2, 256),
    }
    width, layers, streams = 2048, 35, 4
    words = 262_400 * width + 262_144 * layers * 256
    once = layers * 256 * width + 2 * (streams - 1) * width**2 + width + 256
    attention = layers * (2 * 2048 * width + 256) + 20 * (2 * 512 * width + 256)
    mixers = streams * width + streams**3 + streams**2 + 2 * width
    others = 3 * 16_384 * width + 2 * 64 * width + 2 * 256 * width + 6 * width
    assert spec.parameter_count == words + once + attention + layers * (mixers + others)


def test_gemma_2_brings_its_soft_caps_and_others_none() -> None:
    gemma, llama = (ModelSpec.from_config(config_of(name)) for name in ("gemma-2-2b", "llama-3.2-1b"))
    assert (gemma.attention_softcap, gemma.logit_softcap) == (50.0, 30.0)
    assert (llama.attention_softcap, llama.logit_softcap) == (None, None)


def test_mistral_slides_everywhere_and_nowhere_without_a_window() -> None:
    sliding = ModelSpec.from_config(config_of("mistral-7b-v0.1"))
    full = ModelSpec.from_config(config_of("mistral-7b-v0.1", sliding_window=None))
    assert {(layer.kind, layer.window) for layer in sliding.layers} == {("sliding", 4096)}
    assert {(layer.kind, layer.window) for layer in full.layers} == {("full", None)}


def test_the_decoder_depth_of_t5_is_its_own() -> None:
    spec = ModelSpec.from_config(config_of("t5-small", num_layers=6, num_decoder_layers=2))
    assert spec.encoder is not None
    assert (len(spec.layers), spec.encoder.layers) == (2, 6)


def test_the_decoder_heads_of_bart_are_its_own() -> None:
    spec = ModelSpec.from_config(config_of("bart-base", decoder_attention_heads=6, decoder_layers=2))
    assert spec.encoder is not None
    assert (spec.encoder.heads, spec.encoder.head_dim) == (12, 64)
    assert {(layer.kv_heads, layer.key_dim) for layer in spec.layers} == {(6, 128)}


def test_t5_has_a_relative_bias_and_no_position_limit() -> None:
    spec = ModelSpec.from_config(config_of("t5-small"))
    assert spec.relative_bias == RelativeBias(buckets=32, max_distance=128)
    assert spec.max_positions is None
    assert spec.encoder == EncoderSpec(6, 8, 64, 512, None, None, None, None, 32128)


def test_whisper_gives_1500_positions_for_3000_frames() -> None:
    spec = ModelSpec.from_config(config_of("whisper-tiny.en"))
    assert spec.kind == "speech_seq2seq"
    assert spec.encoder == EncoderSpec(4, 6, 64, 384, 1500, 1500, (80, 3000), None, None)
    assert spec.max_positions == 448


@pytest.mark.parametrize(
    ("name", "limit"), [("gpt2", 1024), ("bart-base", 1024), ("opus-mt-en-de", 512), ("smollm2-135m", 8192)]
)
def test_the_position_limit_is_the_models_table_or_trained_context(name: str, limit: int) -> None:
    assert ModelSpec.from_config(config_of(name)).max_positions == limit


def test_marian_may_write_another_vocabulary_than_it_reads() -> None:
    ids = {"pad_token_id": 98, "decoder_start_token_id": 98}
    apart = {"decoder_vocab_size": 99, "share_encoder_decoder_embeddings": False}
    spec = ModelSpec.from_config(config_of("opus-mt-en-de", **apart, **ids))
    assert spec.encoder is not None
    assert (spec.vocab_size, spec.encoder.vocab_size) == (99, 58101)


def test_an_untied_head_is_known_though_transformers_ties_it() -> None:
    tied = {name: ModelSpec.from_config(config_of(name)).tied_embeddings for name in GEOMETRIES}
    assert tied["t5-small"]
    assert not tied["flan-t5-small"]
    assert not tied["mt5-small"]
    assert not tied["mistral-7b-v0.1"]
