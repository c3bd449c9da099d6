"""Names of the recipes, as `export-model --recipe NAME` takes them."""

from __future__ import annotations

from collections.abc import Callable

from exporter.spec.deployment import Deployment
from recipes import decoder_only, gemma, moonshine, speech_seq2seq, text_seq2seq

RECIPES: dict[str, Callable[[], Deployment]] = {
    "t5-small": text_seq2seq.t5_small,
    "t5-base": text_seq2seq.t5_base,
    "flan-t5-small": text_seq2seq.flan_t5_small,
    "flan-t5-base": text_seq2seq.flan_t5_base,
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
    "moonshine-tiny": moonshine.moonshine_tiny,
    "moonshine-base": moonshine.moonshine_base,
    "smollm2-135m": decoder_only.smollm2_135m,
    "smollm2-135m-instruct": decoder_only.smollm2_135m_instruct,
    "smollm2-360m": decoder_only.smollm2_360m,
    "smollm2-360m-instruct": decoder_only.smollm2_360m_instruct,
    "gemma-3-270m": gemma.gemma_3_270m,
    "gemma-3-270m-it": gemma.gemma_3_270m_it,
    "qwen3-0.6b": decoder_only.qwen3_0_6b,
    "gemma-3-1b-it": gemma.gemma_3_1b_it,
    "llama-3.2-1b": decoder_only.llama_3_2_1b,
    "llama-3.2-1b-instruct": decoder_only.llama_3_2_1b_instruct,
    "gemma-4-e2b": gemma.gemma_4_e2b,
    "gpt2": decoder_only.gpt2,
}
