"""Configurations of tiny decoder-only models, one per family; shapes and rules are those of `tiny_configs.py`."""

from __future__ import annotations

from typing import Any

from transformers import (
    ApertusConfig,
    ArceeConfig,
    Cohere2Config,
    CohereConfig,
    Ernie4_5Config,
    Exaone4Config,
    Gemma3nTextConfig,
    GemmaConfig,
    Glm4Config,
    GlmConfig,
    GPTNeoXConfig,
    GraniteConfig,
    HeliumConfig,
    HunYuanDenseV1Config,
    Ministral3Config,
    MinistralConfig,
    NemotronConfig,
    Olmo2Config,
    Olmo3Config,
    OlmoConfig,
    Phi3Config,
    PhiConfig,
    PretrainedConfig,
    SeedOssConfig,
    SmolLM3Config,
    StableLmConfig,
    Starcoder2Config,
)

from tests.support.tiny_configs import DECODER_SHAPE, FULL, SLIDING, WINDOW


def gemma() -> PretrainedConfig:
    """Gemma 1: scaled embeddings, norms around one, tied head."""
    return GemmaConfig(**DECODER_SHAPE, num_hidden_layers=2, head_dim=12)


def gemma3n() -> PretrainedConfig:
    """Gemma 3n: several streams, gates cut at a quantile, keys and values of earlier layers, per-layer embeddings."""
    return Gemma3nTextConfig(
        **(DECODER_SHAPE | {"intermediate_size": [48, 40, 48, 56, 44]}),
        num_hidden_layers=5,
        head_dim=12,
        sliding_window=WINDOW,
        layer_types=[SLIDING, FULL, SLIDING, SLIDING, FULL],
        num_kv_shared_layers=2,
        vocab_size_per_layer_input=50,  # what lies beyond has the row of token 0
        hidden_size_per_layer_input=8,
        altup_num_inputs=3,
        laurel_rank=6,
        activation_sparsity_pattern=[0.9, 0.6, 0.0, 0.0, 0.3],
        final_logit_softcapping=6.0,
    )


def ministral() -> PretrainedConfig:
    """Ministral: sliding and full layers in turn."""
    return MinistralConfig(
        **DECODER_SHAPE, num_hidden_layers=2, head_dim=12, sliding_window=WINDOW, layer_types=[SLIDING, FULL]
    )


def ministral3() -> PretrainedConfig:
    """Ministral 3: queries grow with the logarithm of how often a position passes the trained context."""
    return Ministral3Config(
        **DECODER_SHAPE,
        num_hidden_layers=2,
        head_dim=12,
        rope_parameters=_rope(
            rope_type="yarn",
            factor=32.0,
            beta_fast=4.0,
            beta_slow=1.0,
            mscale=1.0,
            mscale_all_dim=1.0,
            original_max_position_embeddings=16,
            llama_4_scaling_beta=0.3,
        ),
    )


def phi() -> PretrainedConfig:
    """Phi 1 and 2: attention and MLP in parallel, half of a head rotated, biases everywhere."""
    return PhiConfig(**DECODER_SHAPE, num_hidden_layers=2, rope_parameters=_rope(partial_rotary_factor=0.5))


def phi3() -> PretrainedConfig:
    """Phi 3: query, key and value in one matrix, every layer slides."""
    return Phi3Config(**DECODER_SHAPE, num_hidden_layers=2, sliding_window=WINDOW)


def smollm3() -> PretrainedConfig:
    """SmolLM 3: a layer without positions among rotated ones."""
    return SmolLM3Config(**DECODER_SHAPE, num_hidden_layers=2, no_rope_layers=[1, 0])


def olmo() -> PretrainedConfig:
    """OLMo: norms without weights, clipped projections."""
    return OlmoConfig(**DECODER_SHAPE, num_hidden_layers=2, clip_qkv=1.5)


def olmo2() -> PretrainedConfig:
    """OLMo 2: norms behind attention and MLP, one norm over all heads."""
    return Olmo2Config(**DECODER_SHAPE, num_hidden_layers=2)


def olmo3() -> PretrainedConfig:
    """OLMo 3: OLMo 2 with sliding layers, whose rotation has parameters of its own."""
    rope = {SLIDING: _rope(), FULL: _rope(rope_type="linear", factor=3.0)}
    return Olmo3Config(
        **DECODER_SHAPE,
        num_hidden_layers=2,
        sliding_window=WINDOW,
        layer_types=[SLIDING, FULL],
        rope_parameters=rope,
    )


def granite() -> PretrainedConfig:
    """Granite: embeddings, residuals, scores and logits each have a factor."""
    return GraniteConfig(
        **DECODER_SHAPE,
        num_hidden_layers=2,
        embedding_multiplier=3.0,
        residual_multiplier=0.6,
        attention_multiplier=0.2,
        logits_scaling=2.0,
    )


def gpt_neox() -> PretrainedConfig:
    """GPT-NeoX and Pythia: attention and MLP in parallel, half of a head rotated."""
    shape = {name: value for name, value in DECODER_SHAPE.items() if name != "num_key_value_heads"}
    return GPTNeoXConfig(**shape, num_hidden_layers=2, rope_parameters=_rope(partial_rotary_factor=0.5))


def cohere() -> PretrainedConfig:
    """Cohere: interleaved rotation, attention and MLP in parallel, scaled logits."""
    return CohereConfig(**DECODER_SHAPE, num_hidden_layers=2, logit_scale=0.5, use_qk_norm=True)


def cohere2() -> PretrainedConfig:
    """Cohere 2: sliding layers rotate, full layers have no positions, scaled logits."""
    return Cohere2Config(
        **DECODER_SHAPE,
        num_hidden_layers=2,
        logit_scale=0.5,
        sliding_window=WINDOW,
        layer_types=[SLIDING, FULL],
    )


def stablelm() -> PretrainedConfig:
    """StableLM 2: a part of a head rotated, a norm per head, attention and MLP in parallel."""
    return StableLmConfig(
        **DECODER_SHAPE,
        num_hidden_layers=2,
        rope_parameters=_rope(partial_rotary_factor=0.25),
        use_qkv_bias=True,
        qk_layernorm=True,
        use_parallel_residual=True,
    )


def exaone4() -> PretrainedConfig:
    """EXAONE 4: sliding layers rotate, full layers have no positions; norms behind attention and MLP."""
    return Exaone4Config(
        **DECODER_SHAPE,
        num_hidden_layers=2,
        head_dim=12,
        sliding_window=WINDOW,
        sliding_window_pattern=2,
        layer_types=[SLIDING, FULL],
    )


def glm() -> PretrainedConfig:
    """GLM: interleaved rotation of half a head."""
    rope = _rope(partial_rotary_factor=0.5)
    return GlmConfig(**DECODER_SHAPE, num_hidden_layers=2, head_dim=12, rope_parameters=rope)


def glm4() -> PretrainedConfig:
    """GLM 4: GLM with norms before and behind."""
    rope = _rope(partial_rotary_factor=0.5)
    return Glm4Config(**DECODER_SHAPE, num_hidden_layers=2, head_dim=12, rope_parameters=rope)


def helium() -> PretrainedConfig:
    """Helium: interleaved rotation."""
    return HeliumConfig(**DECODER_SHAPE, num_hidden_layers=2, head_dim=8)


def starcoder2() -> PretrainedConfig:
    """StarCoder 2: biases everywhere, tanh GELU, every layer slides."""
    return Starcoder2Config(**DECODER_SHAPE, num_hidden_layers=2, sliding_window=WINDOW)


def nemotron() -> PretrainedConfig:
    """Nemotron: squared ReLU, norms around one, half of a head rotated."""
    rope = _rope(partial_rotary_factor=0.5)
    return NemotronConfig(**DECODER_SHAPE, num_hidden_layers=2, head_dim=12, rope_parameters=rope)


def ernie4_5() -> PretrainedConfig:
    """ERNIE 4.5: interleaved rotation, biases."""
    return Ernie4_5Config(**DECODER_SHAPE, num_hidden_layers=2, head_dim=12, use_bias=True)


def hunyuan() -> PretrainedConfig:
    """HunYuan: norms of query and key behind the rotation."""
    return HunYuanDenseV1Config(**DECODER_SHAPE, num_hidden_layers=2, head_dim=12)


def seed_oss() -> PretrainedConfig:
    """Seed-OSS: biases on query, key and value."""
    return SeedOssConfig(**DECODER_SHAPE, num_hidden_layers=2, head_dim=12)


def arcee() -> PretrainedConfig:
    """Arcee: squared ReLU without a gate."""
    return ArceeConfig(**DECODER_SHAPE, num_hidden_layers=2, head_dim=12)


def apertus() -> PretrainedConfig:
    """Apertus: an activation with learned slopes, norms of query and key."""
    return ApertusConfig(**DECODER_SHAPE, num_hidden_layers=2, rope_parameters=_rope())


def _rope(**parameters: Any) -> dict[str, Any]:
    return {"rope_type": "default", "rope_theta": 1e4} | parameters
