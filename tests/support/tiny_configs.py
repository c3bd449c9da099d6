"""Configurations of tiny models, one per family, with every fact that tends to be lost left uneven.

Hidden size 32, vocabulary 64, window 8, two to four layers. Head size times heads differs from the hidden
size and key/value heads are fewer than query heads wherever a family allows it; encoder and decoder depths
differ; soft caps and query scales are small enough to change the result.
"""

from __future__ import annotations

from transformers import (
    BartConfig,
    Gemma2Config,
    Gemma3TextConfig,
    Gemma4AssistantConfig,
    Gemma4TextConfig,
    Gemma4UnifiedTextConfig,
    GPT2Config,
    LlamaConfig,
    MarianConfig,
    MBartConfig,
    MistralConfig,
    MoonshineConfig,
    MT5Config,
    PretrainedConfig,
    Qwen2Config,
    Qwen3Config,
    Speech2TextConfig,
    T5Config,
    WhisperConfig,
)

HIDDEN = 32
VOCAB = 64
WINDOW = 8
POSITIONS = 512
MEL_BINS = 16
MEL_FRAMES = 40
SLIDING, FULL = "sliding_attention", "full_attention"


def t5() -> PretrainedConfig:
    """Original T5: ReLU, decoder outputs scaled by ``d_model ** -0.5``."""
    return T5Config(**T5_SHAPE, feed_forward_proj="relu", decoder_start_token_id=0)


def flan_t5() -> PretrainedConfig:
    """T5 1.1 and Flan-T5: gated GELU, decoder outputs not scaled."""
    return T5Config(
        **T5_SHAPE, feed_forward_proj="gated-gelu", tie_word_embeddings=False, decoder_start_token_id=0
    )


def mt5() -> PretrainedConfig:
    """mT5: gated GELU."""
    return MT5Config(**T5_SHAPE, feed_forward_proj="gated-gelu", decoder_start_token_id=0)


def bart() -> PretrainedConfig:
    """BART: learned positions with an offset of two, post-norm, starts with EOS."""
    return BartConfig(**BART_SHAPE, pad_token_id=1, bos_token_id=0, eos_token_id=2, decoder_start_token_id=2)


def mbart() -> PretrainedConfig:
    """mBART: pre-norm, scaled embeddings, starts with a language token."""
    return MBartConfig(
        **BART_SHAPE,
        scale_embedding=True,
        pad_token_id=1,
        bos_token_id=0,
        eos_token_id=2,
        decoder_start_token_id=VOCAB - 4,
    )


def marian() -> PretrainedConfig:
    """Marian: static sinusoidal positions, scaled embeddings, starts with the padding token."""
    return MarianConfig(
        **BART_SHAPE,
        scale_embedding=True,
        activation_function="swish",
        pad_token_id=VOCAB - 1,
        eos_token_id=0,
        decoder_start_token_id=VOCAB - 1,
    )


def whisper() -> PretrainedConfig:
    """Whisper: 40 mel frames give 20 encoder positions."""
    return WhisperConfig(
        vocab_size=VOCAB,
        num_mel_bins=MEL_BINS,
        d_model=HIDDEN,
        encoder_layers=3,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        max_source_positions=MEL_FRAMES // 2,
        max_target_positions=128,
        pad_token_id=60,
        eos_token_id=60,
        bos_token_id=61,
        decoder_start_token_id=61,
        suppress_tokens=None,
        begin_suppress_tokens=None,
    )


def moonshine() -> PretrainedConfig:
    """Moonshine: sound of any length, interleaved rotation of three quarters of a head, a norm over all of a row."""
    return MoonshineConfig(
        vocab_size=VOCAB,
        hidden_size=HIDDEN,
        intermediate_size=48,
        encoder_num_hidden_layers=2,
        decoder_num_hidden_layers=3,
        encoder_num_attention_heads=4,
        decoder_num_attention_heads=4,
        pad_head_dim_to_multiple_of=12,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.75},
        max_position_embeddings=128,
        pad_token_id=2,
        eos_token_id=2,
        bos_token_id=1,
        decoder_start_token_id=1,
    )


def speech_to_text() -> PretrainedConfig:
    """Speech2Text: features of any length, normalised row by row, gated convolutions, sinusoidal positions."""
    return Speech2TextConfig(
        vocab_size=VOCAB,
        d_model=HIDDEN,
        encoder_layers=3,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=2,
        encoder_ffn_dim=48,
        decoder_ffn_dim=40,
        max_source_positions=480,
        max_target_positions=128,
        conv_kernel_sizes=(5, 3),
        conv_channels=24,
        input_feat_per_channel=20,
        scale_embedding=True,
        pad_token_id=1,
        bos_token_id=0,
        eos_token_id=2,
        decoder_start_token_id=2,
    )


def llama() -> PretrainedConfig:
    """Llama: untied head."""
    return LlamaConfig(**DECODER_SHAPE, num_hidden_layers=2, head_dim=12, tie_word_embeddings=False)


def qwen2() -> PretrainedConfig:
    """Qwen2: biases on query, key and value."""
    return Qwen2Config(**DECODER_SHAPE, num_hidden_layers=2, tie_word_embeddings=True)


def qwen3() -> PretrainedConfig:
    """Qwen3: query and key are normalised per head."""
    return Qwen3Config(**DECODER_SHAPE, num_hidden_layers=2, head_dim=12, tie_word_embeddings=True)


def mistral() -> PretrainedConfig:
    """Mistral: every layer slides."""
    return MistralConfig(
        **DECODER_SHAPE, num_hidden_layers=2, head_dim=12, sliding_window=WINDOW, tie_word_embeddings=False
    )


def gemma2() -> PretrainedConfig:
    """Gemma 2: alternate sliding and full layers, soft caps on scores and logits."""
    return Gemma2Config(
        **DECODER_SHAPE,
        num_hidden_layers=4,
        head_dim=12,
        query_pre_attn_scalar=10,
        sliding_window=WINDOW,
        layer_types=[SLIDING, FULL, SLIDING, FULL],
        attn_logit_softcapping=4.0,
        final_logit_softcapping=6.0,
    )


def gemma3() -> PretrainedConfig:
    """Gemma 3 text: sliding and full layers in uneven order, one rope base per type."""
    return Gemma3TextConfig(
        **DECODER_SHAPE,
        num_hidden_layers=4,
        head_dim=12,
        query_pre_attn_scalar=10,
        sliding_window=WINDOW,
        layer_types=[SLIDING, SLIDING, FULL, SLIDING],
    )


def gemma4() -> PretrainedConfig:
    """Gemma 4 E2B: two head sizes, keys and values of earlier layers, per-layer embeddings, wider shared layers."""
    return Gemma4TextConfig(
        **DECODER_SHAPE,
        num_hidden_layers=5,
        head_dim=12,
        global_head_dim=20,
        sliding_window=WINDOW,
        layer_types=[SLIDING, FULL, SLIDING, SLIDING, FULL],
        num_kv_shared_layers=2,
        vocab_size_per_layer_input=VOCAB,
        hidden_size_per_layer_input=8,
        use_double_wide_mlp=True,
        final_logit_softcapping=6.0,
    )


def gemma4_unified() -> PretrainedConfig:
    """Gemma 4 12B: full layers have fewer heads, whose keys are their values before norm and rotation."""
    return Gemma4UnifiedTextConfig(
        **DECODER_SHAPE,
        num_hidden_layers=3,
        head_dim=12,
        global_head_dim=20,
        num_global_key_value_heads=1,
        attention_k_eq_v=True,
        sliding_window=WINDOW,
        layer_types=[SLIDING, SLIDING, FULL],
        final_logit_softcapping=6.0,
    )


def gemma4_assistant(*, clustered: bool = False) -> PretrainedConfig:
    """An assistant of `gemma4`: narrower, with another number of layers of each type, and no keys of its own."""
    text = Gemma4TextConfig(
        **(DECODER_SHAPE | {"hidden_size": 16, "intermediate_size": 24}),
        num_hidden_layers=3,
        num_kv_shared_layers=3,
        head_dim=12,
        global_head_dim=20,
        sliding_window=WINDOW,
        layer_types=[SLIDING, FULL, FULL],
        hidden_size_per_layer_input=0,
        vocab_size_per_layer_input=0,
    )
    return Gemma4AssistantConfig(
        text_config=text,
        backbone_hidden_size=HIDDEN,
        use_ordered_embeddings=clustered,
        num_centroids=8,
        centroid_intermediate_top_k=3,
    )


def gpt2() -> PretrainedConfig:
    """GPT-2: learned positions, no grouped heads."""
    return GPT2Config(
        vocab_size=VOCAB,
        n_positions=POSITIONS,
        n_embd=HIDDEN,
        n_layer=2,
        n_head=4,
        n_inner=48,
        bos_token_id=1,
        eos_token_id=1,
        pad_token_id=0,
    )


T5_SHAPE = {
    "vocab_size": VOCAB,
    "d_model": HIDDEN,
    "d_kv": 12,
    "d_ff": 48,
    "num_layers": 3,
    "num_decoder_layers": 2,
    "num_heads": 4,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 16,
    "pad_token_id": 0,
    "eos_token_id": 1,
}

BART_SHAPE = {
    "vocab_size": VOCAB,
    "d_model": HIDDEN,
    "encoder_layers": 3,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": POSITIONS,
    "forced_eos_token_id": None,
}

DECODER_SHAPE = {
    "vocab_size": VOCAB,
    "hidden_size": HIDDEN,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": POSITIONS,
    "pad_token_id": 0,
    "bos_token_id": 2,
    "eos_token_id": 1,
}
