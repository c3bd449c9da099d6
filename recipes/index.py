"""Names of the recipes, as `export-model --recipe NAME` takes them."""

from __future__ import annotations

from collections.abc import Callable

from exporter.spec.recipe import Recipe
from recipes import decoder_only, speech_seq2seq, text_seq2seq

RECIPES: dict[str, Callable[[], Recipe]] = {
    "t5-small": text_seq2seq.t5_small,
    "flan-t5-small": text_seq2seq.flan_t5_small,
    "bart-large-cnn": text_seq2seq.bart_large_cnn,
    "opus-mt-en-de": text_seq2seq.opus_mt_en_de,
    "whisper-tiny.en": speech_seq2seq.whisper_tiny_en,
    "smollm2-135m": decoder_only.smollm2_135m,
    "gemma-3-270m": decoder_only.gemma_3_270m,
    "qwen3-0.6b": decoder_only.qwen3_0_6b,
    "gpt2": decoder_only.gpt2,
}
