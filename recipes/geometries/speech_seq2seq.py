"""Speech encoder-decoders: English Whisper and Moonshine models."""

from __future__ import annotations

from typing import Any

# Punctuation and markup that published English Whisper models never emit.
# fmt: off
_SUPPRESSED = [
    1, 2, 7, 8, 9, 10, 14, 25, 26, 27, 28, 29, 31, 58, 59, 60, 61, 62, 63, 90, 91, 92, 93, 357, 366,
    438, 532, 685, 705, 796, 930, 1058, 1220, 1267, 1279, 1303, 1343, 1377, 1391, 1635, 1782, 1875,
    2162, 2361, 2488, 3467, 4008, 4211, 4600, 4808, 5299, 5855, 6329, 7203, 9609, 9959, 10563, 10786,
    11420, 11709, 11907, 13163, 13697, 13700, 14808, 15306, 16410, 16791, 17992, 19203, 19510, 20724,
    22305, 22935, 27007, 30109, 30420, 33409, 34949, 40283, 40493, 40549, 47282, 49146, 50257, 50357,
    50358, 50359, 50360, 50361,
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
