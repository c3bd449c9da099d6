"""Names of the published geometries, and the Hub ids that the short names stand for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from recipes.geometries import decoder_only, speech_seq2seq, text_seq2seq

GEOMETRIES: dict[str, Callable[[], dict[str, Any]]] = {
    "t5-small": text_seq2seq.t5_small,
    "t5-base": text_seq2seq.t5_base,
    "flan-t5-small": text_seq2seq.flan_t5_small,
    "flan-t5-base": text_seq2seq.flan_t5_base,
    "mt5-small": text_seq2seq.mt5_small,
    "bart-base": text_seq2seq.bart_base,
    "bart-large-cnn": text_seq2seq.bart_large_cnn,
    "opus-mt-en-de": text_seq2seq.opus_mt_en_de,
    "whisper-tiny.en": speech_seq2seq.whisper_tiny_en,
    "whisper-base.en": speech_seq2seq.whisper_base_en,
    "moonshine-tiny": speech_seq2seq.moonshine_tiny,
    "moonshine-base": speech_seq2seq.moonshine_base,
    "gpt2": decoder_only.gpt2,
    "smollm2-135m": decoder_only.smollm2_135m,
    "llama-3.2-1b": decoder_only.llama_3_2_1b,
    "qwen2.5-0.5b": decoder_only.qwen2_5_0_5b,
    "qwen3-0.6b": decoder_only.qwen3_0_6b,
    "mistral-7b-v0.1": decoder_only.mistral_7b_v0_1,
    "gemma-2-2b": decoder_only.gemma_2_2b,
    "gemma-3-270m": decoder_only.gemma_3_270m,
    "gemma-3-1b": decoder_only.gemma_3_1b,
    "gemma-4-e2b": decoder_only.gemma_4_e2b,
}

HUB_IDS: dict[str, str] = {
    "t5-small": "google-t5/t5-small",
    "t5-base": "google-t5/t5-base",
    "t5-large": "google-t5/t5-large",
    "flan-t5-small": "google/flan-t5-small",
    "flan-t5-base": "google/flan-t5-base",
    "mt5-small": "google/mt5-small",
    "bart-base": "facebook/bart-base",
    "bart-large-cnn": "facebook/bart-large-cnn",
    "opus-mt-en-de": "Helsinki-NLP/opus-mt-en-de",
    "whisper-tiny": "openai/whisper-tiny",
    "whisper-tiny.en": "openai/whisper-tiny.en",
    "whisper-base.en": "openai/whisper-base.en",
    "moonshine-tiny": "UsefulSensors/moonshine-tiny",
    "moonshine-base": "UsefulSensors/moonshine-base",
    "gpt2": "openai-community/gpt2",
    "distilgpt2": "distilbert/distilgpt2",
    "smollm2-135m": "HuggingFaceTB/SmolLM2-135M",
    "llama-3.2-1b": "meta-llama/Llama-3.2-1B",
    "qwen2.5-0.5b": "Qwen/Qwen2.5-0.5B",
    "qwen3-0.6b": "Qwen/Qwen3-0.6B",
    "mistral-7b-v0.1": "mistralai/Mistral-7B-v0.1",
    "gemma-2-2b": "google/gemma-2-2b",
    "gemma-3-270m": "google/gemma-3-270m",
    "gemma-3-1b": "google/gemma-3-1b-pt",
    "gemma-4-e2b": "google/gemma-4-E2B-it",
}
