"""Decoder-only models: GPT-2, Llama, SmolLM 2, Qwen and Mistral."""

from __future__ import annotations

from typing import Any


def gpt2() -> dict[str, Any]:
    """openai-community/gpt2"""
    return {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "vocab_size": 50257,
        "n_positions": 1024,
        "n_embd": 768,
        "n_layer": 12,
        "n_head": 12,
        "activation_function": "gelu_new",
        "layer_norm_epsilon": 1e-5,
        "initializer_range": 0.02,
        "tie_word_embeddings": True,
        "bos_token_id": 50256,
        "eos_token_id": 50256,
    }


def smollm2_135m() -> dict[str, Any]:
    """HuggingFaceTB/SmolLM2-135M"""
    return {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": 49152,
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "hidden_act": "silu",
        "max_position_embeddings": 8192,
        "initializer_range": 0.041666666666666664,
        "rms_norm_eps": 1e-5,
        "rope_theta": 100000.0,
        "tie_word_embeddings": True,
        "bos_token_id": 0,
        "eos_token_id": 0,
    }


def smollm2_135m_instruct() -> dict[str, Any]:
    """HuggingFaceTB/SmolLM2-135M-Instruct"""
    return smollm2_135m() | {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2}


def smollm2_360m() -> dict[str, Any]:
    """HuggingFaceTB/SmolLM2-360M"""
    return smollm2_135m() | {
        "hidden_size": 960,
        "intermediate_size": 2560,
        "num_hidden_layers": 32,
        "num_attention_heads": 15,
        "num_key_value_heads": 5,
        "initializer_range": 0.02,
    }


def smollm2_360m_instruct() -> dict[str, Any]:
    """HuggingFaceTB/SmolLM2-360M-Instruct"""
    return smollm2_360m() | {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2}


def llama_3_2_1b() -> dict[str, Any]:
    """meta-llama/Llama-3.2-1B"""
    return {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": 128256,
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_hidden_layers": 16,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "hidden_act": "silu",
        "max_position_embeddings": 131072,
        "initializer_range": 0.02,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500000.0,
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 32.0,
            "high_freq_factor": 4.0,
            "low_freq_factor": 1.0,
            "original_max_position_embeddings": 8192,
        },
        "tie_word_embeddings": True,
        "bos_token_id": 128000,
        "eos_token_id": 128001,
    }


def llama_3_2_1b_instruct() -> dict[str, Any]:
    """meta-llama/Llama-3.2-1B-Instruct"""
    return llama_3_2_1b() | {"eos_token_id": [128001, 128008, 128009]}


def qwen2_5_0_5b() -> dict[str, Any]:
    """Qwen/Qwen2.5-0.5B"""
    return {
        "model_type": "qwen2",
        "architectures": ["Qwen2ForCausalLM"],
        "vocab_size": 151936,
        "hidden_size": 896,
        "intermediate_size": 4864,
        "num_hidden_layers": 24,
        "num_attention_heads": 14,
        "num_key_value_heads": 2,
        "hidden_act": "silu",
        "max_position_embeddings": 32768,
        "initializer_range": 0.02,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1000000.0,
        "use_sliding_window": False,
        "sliding_window": 32768,
        "max_window_layers": 24,
        "tie_word_embeddings": True,
        "bos_token_id": 151643,
        "eos_token_id": 151643,
    }


def qwen3_0_6b() -> dict[str, Any]:
    """Qwen/Qwen3-0.6B"""
    return {
        "model_type": "qwen3",
        "architectures": ["Qwen3ForCausalLM"],
        "vocab_size": 151936,
        "hidden_size": 1024,
        "intermediate_size": 3072,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "hidden_act": "silu",
        "max_position_embeddings": 40960,
        "initializer_range": 0.02,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1000000.0,
        "attention_bias": False,
        "use_sliding_window": False,
        "sliding_window": None,
        "max_window_layers": 28,
        "tie_word_embeddings": True,
        "bos_token_id": 151643,
        "eos_token_id": 151645,
    }


def mistral_7b_v0_1() -> dict[str, Any]:
    """mistralai/Mistral-7B-v0.1"""
    return {
        "model_type": "mistral",
        "architectures": ["MistralForCausalLM"],
        "vocab_size": 32000,
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "hidden_act": "silu",
        "max_position_embeddings": 32768,
        "sliding_window": 4096,
        "initializer_range": 0.02,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
