"""Names of the published geometries, and the Hub ids that the short names stand for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from recipes.geometries import decoder_only, gemma, speech_seq2seq, text_seq2seq

GEOMETRIES: dict[str, Callable[[], dict[str, Any]]] = {
    "t5-small": text_seq2seq.t5_small,
    "t5-base": text_seq2seq.t5_base,
    "flan-t5-small": text_seq2seq.flan_t5_small,
    "flan-t5-base": text_seq2seq.flan_t5_base,
    "mt5-small": text_seq2seq.mt5_small,
    "bart-base": text_seq2seq.bart_base,
    "bart-base-cnn": text_seq2seq.bart_base_cnn,
    "bart-large-cnn": text_seq2seq.bart_large_cnn,
    "opus-mt-en-de": text_seq2seq.opus_mt_en_de,
    "whisper-tiny": speech_seq2seq.whisper_tiny,
    "whisper-tiny.en": speech_seq2seq.whisper_tiny_en,
    "whisper-base": speech_seq2seq.whisper_base,
    "whisper-base.en": speech_seq2seq.whisper_base_en,
    "whisper-small": speech_seq2seq.whisper_small,
    "whisper-small.en": speech_seq2seq.whisper_small_en,
    "distil-small.en": speech_seq2seq.distil_small_en,
    "distil-medium.en": speech_seq2seq.distil_medium_en,
    "gpt2": decoder_only.gpt2,
    "smollm2-135m": decoder_only.smollm2_135m,
    "smollm2-135m-instruct": decoder_only.smollm2_135m_instruct,
    "smollm2-360m": decoder_only.smollm2_360m,
    "smollm2-360m-instruct": decoder_only.smollm2_360m_instruct,
    "llama-3.2-1b": decoder_only.llama_3_2_1b,
    "llama-3.2-1b-instruct": decoder_only.llama_3_2_1b_instruct,
    "qwen2.5-0.5b": decoder_only.qwen2_5_0_5b,
    "qwen3-0.6b": decoder_only.qwen3_0_6b,
    "mistral-7b-v0.1": decoder_only.mistral_7b_v0_1,
    "gemma-2-2b": gemma.gemma_2_2b,
    "gemma-3-270m": gemma.gemma_3_270m,
    "gemma-3-270m-it": gemma.gemma_3_270m_it,
    "gemma-3-1b": gemma.gemma_3_1b,
    "gemma-3-1b-it": gemma.gemma_3_1b_it,
    "gemma-4-e2b": gemma.gemma_4_e2b,
}

ASSISTANTS: dict[str, Callable[[], dict[str, Any]]] = {"gemma-4-e2b-assistant": gemma.gemma_4_e2b_assistant}
"""Models that only draft, over the caches of another."""

HUB_IDS: dict[str, str] = {
    "t5-small": "google-t5/t5-small",
    "t5-base": "google-t5/t5-base",
    "t5-large": "google-t5/t5-large",
    "flan-t5-small": "google/flan-t5-small",
    "flan-t5-base": "google/flan-t5-base",
    "mt5-small": "google/mt5-small",
    "bart-base": "facebook/bart-base",
    "bart-base-cnn": "ainize/bart-base-cnn",
    "bart-large-cnn": "facebook/bart-large-cnn",
    "opus-mt-en-de": "Helsinki-NLP/opus-mt-en-de",
    "whisper-tiny": "openai/whisper-tiny",
    "whisper-tiny.en": "openai/whisper-tiny.en",
    "whisper-base": "openai/whisper-base",
    "whisper-base.en": "openai/whisper-base.en",
    "whisper-small": "openai/whisper-small",
    "whisper-small.en": "openai/whisper-small.en",
    "distil-small.en": "distil-whisper/distil-small.en",
    "distil-medium.en": "distil-whisper/distil-medium.en",
    "gpt2": "openai-community/gpt2",
    "distilgpt2": "distilbert/distilgpt2",
    "smollm2-135m": "HuggingFaceTB/SmolLM2-135M",
    "smollm2-135m-instruct": "HuggingFaceTB/SmolLM2-135M-Instruct",
    "smollm2-360m": "HuggingFaceTB/SmolLM2-360M",
    "smollm2-360m-instruct": "HuggingFaceTB/SmolLM2-360M-Instruct",
    "llama-3.2-1b": "meta-llama/Llama-3.2-1B",
    "llama-3.2-1b-instruct": "meta-llama/Llama-3.2-1B-Instruct",
    "qwen2.5-0.5b": "Qwen/Qwen2.5-0.5B",
    "qwen3-0.6b": "Qwen/Qwen3-0.6B",
    "mistral-7b-v0.1": "mistralai/Mistral-7B-v0.1",
    "gemma-2-2b": "google/gemma-2-2b",
    "gemma-3-270m": "google/gemma-3-270m",
    "gemma-3-270m-it": "google/gemma-3-270m-it",
    "gemma-3-1b": "google/gemma-3-1b-pt",
    "gemma-3-1b-it": "google/gemma-3-1b-it",
    "gemma-4-e2b": "google/gemma-4-E2B-it",
    "gemma-4-e2b-assistant": "google/gemma-4-E2B-it-assistant",
}
