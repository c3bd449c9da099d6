"""Configurations of tiny text encoder-decoders beside those of `tiny_configs.py`, whose shapes and rules they share."""

from __future__ import annotations

from typing import Any

from transformers import (
    BlenderbotConfig,
    BlenderbotSmallConfig,
    M2M100Config,
    PegasusConfig,
    PretrainedConfig,
    T5Gemma2Config,
    T5GemmaConfig,
    UMT5Config,
)

from tests.support.tiny_configs import BART_SHAPE, FULL, HIDDEN, POSITIONS, SLIDING, T5_SHAPE, VOCAB, WINDOW

SPECIAL = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2}


def umt5() -> PretrainedConfig:
    """UMT5: a relative bias of its own in every layer, a head of its own."""
    return UMT5Config(**T5_SHAPE, feed_forward_proj="gated-gelu", tie_word_embeddings=False, decoder_start_token_id=0)


def pegasus() -> PretrainedConfig:
    """Pegasus: static sinusoidal positions, pre-norm, scaled embeddings, starts with the padding token."""
    return PegasusConfig(**BART_SHAPE, scale_embedding=True, pad_token_id=0, eos_token_id=1, decoder_start_token_id=0)


def m2m_100() -> PretrainedConfig:
    """M2M100 and NLLB: sinusoidal positions that begin behind the padding token's index."""
    return M2M100Config(**BART_SHAPE, **SPECIAL, scale_embedding=True)


def blenderbot() -> PretrainedConfig:
    """Blenderbot: learned positions without an offset, pre-norm."""
    return BlenderbotConfig(**BART_SHAPE, **SPECIAL, scale_embedding=True)


def blenderbot_small() -> PretrainedConfig:
    """Blenderbot small: learned positions without an offset, post-norm."""
    special = SPECIAL | {"eos_token_id": VOCAB - 2, "decoder_start_token_id": VOCAB - 1}
    return BlenderbotSmallConfig(**BART_SHAPE, **special)


def t5gemma() -> PretrainedConfig:
    """T5Gemma: two Gemma 2 stacks of different widths, the encoder's layers slide too, cross-attention is grouped."""
    encoder = _GEMMA_SHAPE | {
        "hidden_size": 24,
        "num_attention_heads": 6,
        "num_key_value_heads": 3,
        "vocab_size": VOCAB,
    }
    encoder |= {"num_hidden_layers": 3, "layer_types": [SLIDING, FULL, SLIDING]}
    decoder = _GEMMA_SHAPE | {"hidden_size": HIDDEN, "num_attention_heads": 4, "num_key_value_heads": 2}
    decoder |= {"num_hidden_layers": 2, "layer_types": [SLIDING, FULL], "vocab_size": VOCAB}
    return T5GemmaConfig(encoder=encoder, decoder=decoder, vocab_size=VOCAB, **_GEMMA_TOKENS)


def t5gemma2() -> PretrainedConfig:
    """T5Gemma 2: one softmax over the decoder's and the encoder's keys, windows halved to each side, norms per head."""
    shape = _GEMMA_SHAPE | {"hidden_size": HIDDEN, "num_attention_heads": 4, "vocab_size": VOCAB}
    text = shape | {"num_key_value_heads": 4, "num_hidden_layers": 3, "layer_types": [SLIDING, FULL, SLIDING]}
    decoder = shape | {"num_key_value_heads": 2, "num_hidden_layers": 2, "layer_types": [SLIDING, FULL]}
    vision = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    vision |= {"image_size": 8, "patch_size": 4, "model_type": "siglip_vision_model"}
    special = {"eoi_token_index": VOCAB // 2, "image_token_index": VOCAB - 1, "mm_tokens_per_image": 4}
    encoder = {"text_config": text, "vision_config": vision} | special
    return T5Gemma2Config(encoder=encoder, decoder=decoder, image_token_index=VOCAB - 1)


_GEMMA_TOKENS = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 1}
_GEMMA_SHAPE: dict[str, Any] = _GEMMA_TOKENS | {
    "intermediate_size": 48,
    "head_dim": 12,
    "query_pre_attn_scalar": 10,
    "sliding_window": WINDOW,
    "max_position_embeddings": POSITIONS,
    "attn_logit_softcapping": 4.0,
    "final_logit_softcapping": 6.0,
}
