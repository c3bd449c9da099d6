"""Configurations of tiny models that attend in code of their own; shapes and rules are those of `tiny_configs.py`."""

from __future__ import annotations

from transformers import BloomConfig, FalconConfig, GPTNeoConfig, PretrainedConfig

from tests.support.tiny_configs import HIDDEN, POSITIONS, VOCAB, WINDOW


def falcon() -> PretrainedConfig:
    """Falcon 7B: one key/value head, attention and MLP in parallel behind one norm."""
    return FalconConfig(**FALCON_SHAPE)


def falcon_40b() -> PretrainedConfig:
    """Falcon 40B and 11B: heads in groups whose keys lie behind their queries, a norm each for attention and MLP."""
    return FalconConfig(**FALCON_SHAPE, new_decoder_architecture=True, num_kv_heads=2)


def falcon_sequential() -> PretrainedConfig:
    """Falcon: a key/value head for each query head, MLP behind attention, biases."""
    return FalconConfig(**FALCON_SHAPE, multi_query=False, parallel_attn=False, bias=True)


def bloom() -> PretrainedConfig:
    """BLOOM: no positions, scores fall with distance (ALiBi); six heads, whose slopes are no single series."""
    return BloomConfig(
        vocab_size=VOCAB, hidden_size=48, n_layer=2, n_head=6, pad_token_id=0, bos_token_id=2, eos_token_id=1
    )


def gpt_neo() -> PretrainedConfig:
    """GPT-Neo: learned positions, full and sliding layers in turn, scores without a scale."""
    return GPTNeoConfig(
        vocab_size=VOCAB,
        hidden_size=HIDDEN,
        intermediate_size=48,
        num_layers=3,
        num_heads=4,
        attention_types=[[["global", "local"], 1], [["local"], 1]],
        window_size=WINDOW,
        max_position_embeddings=POSITIONS,
        pad_token_id=0,
        bos_token_id=2,
        eos_token_id=1,
    )


FALCON_SHAPE = {
    "vocab_size": VOCAB,
    "hidden_size": HIDDEN,
    "ffn_hidden_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": POSITIONS,
    "pad_token_id": 0,
    "bos_token_id": 2,
    "eos_token_id": 1,
}
