"""Decoder-only models: Gemma 2, 3 and 4, and the assistant that drafts for Gemma 4 E2B."""

from __future__ import annotations

from typing import Any


def gemma_2_2b() -> dict[str, Any]:
    """google/gemma-2-2b"""
    return {
        "model_type": "gemma2",
        "architectures": ["Gemma2ForCausalLM"],
        "vocab_size": 256000,
        "hidden_size": 2304,
        "intermediate_size": 9216,
        "num_hidden_layers": 26,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "hidden_activation": "gelu_pytorch_tanh",
        "max_position_embeddings": 8192,
        "sliding_window": 4096,
        "query_pre_attn_scalar": 256,
        "attn_logit_softcapping": 50.0,
        "final_logit_softcapping": 30.0,
        "initializer_range": 0.02,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "attention_bias": False,
        "tie_word_embeddings": True,
        "pad_token_id": 0,
        "eos_token_id": 1,
        "bos_token_id": 2,
    }


def gemma_3_270m() -> dict[str, Any]:
    """google/gemma-3-270m"""
    return {
        "model_type": "gemma3_text",
        "architectures": ["Gemma3ForCausalLM"],
        "vocab_size": 262144,
        "hidden_size": 640,
        "intermediate_size": 2048,
        "num_hidden_layers": 18,
        "num_attention_heads": 4,
        "num_key_value_heads": 1,
        "head_dim": 256,
        "hidden_activation": "gelu_pytorch_tanh",
        "max_position_embeddings": 32768,
        "sliding_window": 512,
        "sliding_window_pattern": 6,
        "query_pre_attn_scalar": 256,
        "initializer_range": 0.02,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1000000.0,
        "rope_local_base_freq": 10000.0,
        "attention_bias": False,
        "use_bidirectional_attention": False,
        "tie_word_embeddings": True,
        "pad_token_id": 0,
        "eos_token_id": 1,
        "bos_token_id": 2,
    }


def gemma_3_270m_it() -> dict[str, Any]:
    """google/gemma-3-270m-it"""
    return gemma_3_270m() | {"eos_token_id": [1, 106]}


def gemma_3_1b() -> dict[str, Any]:
    """google/gemma-3-1b-pt"""
    return gemma_3_270m() | {
        "hidden_size": 1152,
        "intermediate_size": 6912,
        "num_hidden_layers": 26,
    }


def gemma_3_1b_it() -> dict[str, Any]:
    """google/gemma-3-1b-it"""
    return gemma_3_1b() | {"eos_token_id": [1, 106]}


def gemma_4_e2b() -> dict[str, Any]:
    """google/gemma-4-E2B-it, its text model: four sliding layers, one full one; the last 20 of 35 share keys."""
    return {
        "model_type": "gemma4_text",
        "vocab_size": 262144,
        "vocab_size_per_layer_input": 262144,
        "hidden_size": 1536,
        "hidden_size_per_layer_input": 256,
        "intermediate_size": 6144,
        "use_double_wide_mlp": True,
        "num_hidden_layers": 35,
        "num_kv_shared_layers": 20,
        "layer_types": (["sliding_attention"] * 4 + ["full_attention"]) * 7,
        "num_attention_heads": 8,
        "num_key_value_heads": 1,
        "head_dim": 256,
        "global_head_dim": 512,
        "sliding_window": 512,
        "max_position_embeddings": 131072,
        "hidden_activation": "gelu_pytorch_tanh",
        "final_logit_softcapping": 30.0,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": True,
        "pad_token_id": 0,
        "bos_token_id": 2,
        "eos_token_id": [1, 106],
    }


def gemma_4_e2b_assistant() -> dict[str, Any]:
    """google/gemma-4-E2B-it-assistant: four layers without keys and values; 2,048 clusters of words, 32 looked at."""
    return {
        "model_type": "gemma4_assistant",
        "architectures": ["Gemma4AssistantForCausalLM"],
        "backbone_hidden_size": 1536,
        "use_ordered_embeddings": True,
        "num_centroids": 2048,
        "centroid_intermediate_top_k": 32,
        "tie_word_embeddings": True,
        "text_config": {
            "model_type": "gemma4_text",
            "vocab_size": 262144,
            "vocab_size_per_layer_input": 0,
            "hidden_size": 256,
            "hidden_size_per_layer_input": 0,
            "intermediate_size": 2048,
            "use_double_wide_mlp": False,
            "num_hidden_layers": 4,
            "num_kv_shared_layers": 4,
            "layer_types": ["sliding_attention"] * 3 + ["full_attention"],
            "num_attention_heads": 4,
            "num_key_value_heads": 1,
            "head_dim": 256,
            "global_head_dim": 512,
            "sliding_window": 512,
            "max_position_embeddings": 131072,
            "hidden_activation": "gelu_pytorch_tanh",
            "rms_norm_eps": 1e-6,
            "tie_word_embeddings": True,
            "pad_token_id": 0,
            "bos_token_id": 2,
            "eos_token_id": 1,
        },
    }
