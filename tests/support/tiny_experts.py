"""Configurations of tiny mixtures of experts; shapes and rules are those of `tiny_configs.py`."""

from __future__ import annotations

from transformers import GptOssConfig, MixtralConfig, OlmoeConfig, PretrainedConfig, Qwen2MoeConfig, Qwen3MoeConfig

from tests.support.tiny_configs import DECODER_SHAPE, FULL, SLIDING, WINDOW


def mixtral() -> PretrainedConfig:
    """Mixtral: two of four experts, every layer slides."""
    return MixtralConfig(
        **DECODER_SHAPE,
        num_hidden_layers=2,
        head_dim=12,
        sliding_window=WINDOW,
        num_local_experts=4,
        num_experts_per_tok=2,
    )


def qwen2_moe() -> PretrainedConfig:
    """Qwen2-MoE: an expert that all tokens share, with a gate, beside those that they choose; a dense layer."""
    return Qwen2MoeConfig(
        **DECODER_SHAPE,
        num_hidden_layers=2,
        num_experts=5,
        num_experts_per_tok=2,
        moe_intermediate_size=24,
        shared_expert_intermediate_size=20,
        mlp_only_layers=[0],
    )


def qwen3_moe() -> PretrainedConfig:
    """Qwen3-MoE: three of five experts, whose weights sum to one; norms of query and key."""
    return Qwen3MoeConfig(
        **DECODER_SHAPE,
        num_hidden_layers=2,
        head_dim=12,
        num_experts=5,
        num_experts_per_tok=3,
        moe_intermediate_size=24,
        norm_topk_prob=True,
    )


def olmoe() -> PretrainedConfig:
    """OLMoE: one norm over all heads."""
    return OlmoeConfig(**DECODER_SHAPE, num_hidden_layers=2, num_experts=4, num_experts_per_tok=2)


def gpt_oss() -> PretrainedConfig:
    """GPT-OSS: attention sinks, sliding and full layers, experts with biases and a clamped gate."""
    rope = {
        "rope_type": "yarn",
        "rope_theta": 1e4,
        "factor": 32.0,
        "beta_fast": 4.0,
        "beta_slow": 1.0,
        "truncate": False,
        "original_max_position_embeddings": 16,
    }
    return GptOssConfig(
        **DECODER_SHAPE,
        num_hidden_layers=2,
        head_dim=12,
        sliding_window=WINDOW,
        layer_types=[SLIDING, FULL],
        num_local_experts=4,
        num_experts_per_tok=2,
        swiglu_limit=1.5,
        rope_parameters=rope,
    )
