"""Speech encoder-decoders: Whisper, English and multilingual, Distil-Whisper, and Moonshine."""

from __future__ import annotations

from typing import Any

# Punctuation and markup that published Whisper models never emit.
# fmt: off
_SUPPRESSED = [
    1, 2, 7, 8, 9, 10, 14, 25, 26, 27, 28, 29, 31, 58, 59, 60, 61, 62, 63, 90, 91, 92, 93, 357, 366,
    438, 532, 685, 705, 796, 930, 1058, 1220, 1267, 1279, 1303, 1343, 1377, 1391, 1635, 1782, 1875,
    2162, 2361, 2488, 3467, 4008, 4211, 4600, 4808, 5299, 5855, 6329, 7203, 9609, 9959, 10563, 10786,
    11420, 11709, 11907, 13163, 13697, 13700, 14808, 15306, 16410, 16791, 17992, 19203, 19510, 20724,
    22305, 22935, 27007, 30109, 30420, 33409, 34949, 40283, 40493, 40549, 47282, 49146, 50257, 50357,
    50358, 50359, 50360, 50361,
]
_SUPPRESSED_MULTILINGUAL = [
    1, 2, 7, 8, 9, 10, 14, 25, 26, 27, 28, 29, 31, 58, 59, 60, 61, 62, 63, 90, 91, 92, 93, 359, 503,
    522, 542, 873, 893, 902, 918, 922, 931, 1350, 1853, 1982, 2460, 2627, 3246, 3253, 3268, 3536, 3846,
    3961, 4183, 4667, 6585, 6647, 7273, 9061, 9383, 10428, 10929, 11938, 12033, 12331, 12562, 13793,
    14157, 14635, 15265, 15618, 16553, 16604, 18362, 18956, 20075, 21675, 22520, 26130, 26161, 26435,
    28279, 29464, 31650, 32302, 32470, 36865, 42863, 47425, 49870, 50254, 50258, 50358, 50359, 50360,
    50361, 50362,
]
# fmt: on


def whisper_tiny_en() -> dict[str, Any]:
    """openai/whisper-tiny.en"""
    return {
        "model_type": "whisper",
        "architectures": ["WhisperForConditionalGeneration"],
        "vocab_size": 51864,
        "num_mel_bins": 80,
        "max_source_positions": 1500,
        "max_target_positions": 448,
        "d_model": 384,
        "encoder_layers": 4,
        "encoder_attention_heads": 6,
        "encoder_ffn_dim": 1536,
        "decoder_layers": 4,
        "decoder_attention_heads": 6,
        "decoder_ffn_dim": 1536,
        "activation_function": "gelu",
        "scale_embedding": False,
        "init_std": 0.02,
        "tie_word_embeddings": True,
        "bos_token_id": 50257,
        "pad_token_id": 50256,
        "eos_token_id": 50256,
        "decoder_start_token_id": 50257,
        "suppress_tokens": list(_SUPPRESSED),
        "begin_suppress_tokens": [220, 50256],
    }


def whisper_base_en() -> dict[str, Any]:
    """openai/whisper-base.en"""
    return whisper_tiny_en() | {
        "d_model": 512,
        "encoder_layers": 6,
        "encoder_attention_heads": 8,
        "encoder_ffn_dim": 2048,
        "decoder_layers": 6,
        "decoder_attention_heads": 8,
        "decoder_ffn_dim": 2048,
    }


def whisper_small_en() -> dict[str, Any]:
    """openai/whisper-small.en"""
    return whisper_tiny_en() | {
        "d_model": 768,
        "encoder_layers": 12,
        "encoder_attention_heads": 12,
        "encoder_ffn_dim": 3072,
        "decoder_layers": 12,
        "decoder_attention_heads": 12,
        "decoder_ffn_dim": 3072,
    }


def whisper_tiny() -> dict[str, Any]:
    """openai/whisper-tiny"""
    return whisper_tiny_en() | _multilingual()


def whisper_base() -> dict[str, Any]:
    """openai/whisper-base"""
    return whisper_base_en() | _multilingual()


def whisper_small() -> dict[str, Any]:
    """openai/whisper-small"""
    return whisper_small_en() | _multilingual()


def distil_small_en() -> dict[str, Any]:
    """distil-whisper/distil-small.en"""
    return whisper_small_en() | {"decoder_layers": 4}


def distil_medium_en() -> dict[str, Any]:
    """distil-whisper/distil-medium.en"""
    return whisper_tiny_en() | {
        "d_model": 1024,
        "encoder_layers": 24,
        "encoder_attention_heads": 16,
        "encoder_ffn_dim": 4096,
        "decoder_layers": 2,
        "decoder_attention_heads": 16,
        "decoder_ffn_dim": 4096,
    }


def _multilingual() -> dict[str, Any]:
    """What multilingual models have beside their English twins: one word more, other ids behind the words."""
    return {
        "vocab_size": 51865,
        "bos_token_id": 50257,
        "pad_token_id": 50257,
        "eos_token_id": 50257,
        "decoder_start_token_id": 50258,
        "suppress_tokens": list(_SUPPRESSED_MULTILINGUAL),
        "begin_suppress_tokens": [220, 50257],
    }


def moonshine_tiny() -> dict[str, Any]:
    """UsefulSensors/moonshine-tiny"""
    return {
        "model_type": "moonshine",
        "architectures": ["MoonshineForConditionalGeneration"],
        "vocab_size": 32768,
        "hidden_size": 288,
        "intermediate_size": 1152,
        "encoder_num_hidden_layers": 6,
        "encoder_num_attention_heads": 8,
        "encoder_num_key_value_heads": 8,
        "decoder_num_hidden_layers": 6,
        "decoder_num_attention_heads": 8,
        "decoder_num_key_value_heads": 8,
        "pad_head_dim_to_multiple_of": 8,
        "encoder_hidden_act": "gelu",
        "decoder_hidden_act": "silu",
        "max_position_embeddings": 194,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.9},
        "attention_bias": False,
        "initializer_range": 0.02,
        "tie_word_embeddings": True,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 2,
        "decoder_start_token_id": 1,
        "max_length": 194,
    }


def moonshine_base() -> dict[str, Any]:
    """UsefulSensors/moonshine-base"""
    return moonshine_tiny() | {
        "hidden_size": 416,
        "intermediate_size": 1664,
        "encoder_num_hidden_layers": 8,
        "decoder_num_hidden_layers": 8,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.62},
    }
