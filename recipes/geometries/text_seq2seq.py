"""Text encoder-decoders: T5, mT5, BART and Marian."""

from __future__ import annotations

from typing import Any


def t5_small() -> dict[str, Any]:
    """google-t5/t5-small"""
    return {
        "model_type": "t5",
        "architectures": ["T5ForConditionalGeneration"],
        "vocab_size": 32128,
        "d_model": 512,
        "d_kv": 64,
        "d_ff": 2048,
        "num_layers": 6,
        "num_decoder_layers": 6,
        "num_heads": 8,
        "relative_attention_num_buckets": 32,
        "relative_attention_max_distance": 128,
        "layer_norm_epsilon": 1e-6,
        "feed_forward_proj": "relu",
        "initializer_factor": 1.0,
        "tie_word_embeddings": True,
        "pad_token_id": 0,
        "eos_token_id": 1,
        "decoder_start_token_id": 0,
    }


def t5_base() -> dict[str, Any]:
    """google-t5/t5-base"""
    return t5_small() | {
        "d_model": 768,
        "d_ff": 3072,
        "num_layers": 12,
        "num_decoder_layers": 12,
        "num_heads": 12,
    }


def flan_t5_small() -> dict[str, Any]:
    """google/flan-t5-small"""
    return t5_small() | {
        "d_ff": 1024,
        "num_layers": 8,
        "num_decoder_layers": 8,
        "num_heads": 6,
        "feed_forward_proj": "gated-gelu",
        "tie_word_embeddings": False,
    }


def flan_t5_base() -> dict[str, Any]:
    """google/flan-t5-base"""
    return flan_t5_small() | {
        "d_model": 768,
        "d_ff": 2048,
        "num_layers": 12,
        "num_decoder_layers": 12,
        "num_heads": 12,
    }


def mt5_small() -> dict[str, Any]:
    """google/mt5-small"""
    return flan_t5_small() | {
        "model_type": "mt5",
        "architectures": ["MT5ForConditionalGeneration"],
        "vocab_size": 250112,
    }


def bart_base() -> dict[str, Any]:
    """facebook/bart-base"""
    return {
        "model_type": "bart",
        "architectures": ["BartForConditionalGeneration"],
        "vocab_size": 50265,
        "max_position_embeddings": 1024,
        "d_model": 768,
        "encoder_layers": 6,
        "encoder_attention_heads": 12,
        "encoder_ffn_dim": 3072,
        "decoder_layers": 6,
        "decoder_attention_heads": 12,
        "decoder_ffn_dim": 3072,
        "activation_function": "gelu",
        "scale_embedding": False,
        "init_std": 0.02,
        "tie_word_embeddings": True,
        "bos_token_id": 0,
        "pad_token_id": 1,
        "eos_token_id": 2,
        "decoder_start_token_id": 2,
        "forced_bos_token_id": 0,
        "forced_eos_token_id": 2,
    }


def bart_base_cnn() -> dict[str, Any]:
    """ainize/bart-base-cnn"""
    return bart_base()


def bart_large_cnn() -> dict[str, Any]:
    """facebook/bart-large-cnn"""
    return bart_base() | {
        "vocab_size": 50264,
        "d_model": 1024,
        "encoder_layers": 12,
        "encoder_attention_heads": 16,
        "encoder_ffn_dim": 4096,
        "decoder_layers": 12,
        "decoder_attention_heads": 16,
        "decoder_ffn_dim": 4096,
    }


def opus_mt_en_de() -> dict[str, Any]:
    """Helsinki-NLP/opus-mt-en-de"""
    return {
        "model_type": "marian",
        "architectures": ["MarianMTModel"],
        "vocab_size": 58101,
        "decoder_vocab_size": 58101,
        "max_position_embeddings": 512,
        "d_model": 512,
        "encoder_layers": 6,
        "encoder_attention_heads": 8,
        "encoder_ffn_dim": 2048,
        "decoder_layers": 6,
        "decoder_attention_heads": 8,
        "decoder_ffn_dim": 2048,
        "activation_function": "swish",
        "scale_embedding": True,
        "init_std": 0.02,
        "share_encoder_decoder_embeddings": True,
        "tie_word_embeddings": True,
        "bos_token_id": 0,
        "eos_token_id": 0,
        "pad_token_id": 58100,
        "decoder_start_token_id": 58100,
        "forced_eos_token_id": 0,
    }
