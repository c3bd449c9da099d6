"""Recipes for text encoder-decoders."""

from __future__ import annotations

from exporter.spec.recipe import Recipe


def t5_small() -> Recipe:
    """Translate and summarise eight texts of up to 512 tokens at once."""
    return Recipe(
        model="google-t5/t5-small",
        max_batch=8,
        max_enc=512,
        max_dec=256,
        max_draft=4,
        prefill_chunk=16,
        backends=("xnnpack",),
    )


def flan_t5_small() -> Recipe:
    """Follow instructions on four texts of up to 512 tokens at once."""
    return Recipe(
        model="google/flan-t5-small",
        max_batch=4,
        max_enc=512,
        max_dec=256,
        max_draft=4,
        prefill_chunk=16,
        backends=("xnnpack",),
    )


def bart_large_cnn() -> Recipe:
    """Summarise one news article of up to 1024 tokens."""
    return Recipe(
        model="facebook/bart-large-cnn",
        max_batch=1,
        max_enc=1024,
        max_dec=142,
        max_draft=4,
        prefill_chunk=16,
        backends=("xnnpack",),
    )


def opus_mt_en_de() -> Recipe:
    """Translate eight sentences from English to German at once."""
    return Recipe(
        model="Helsinki-NLP/opus-mt-en-de",
        max_batch=8,
        max_enc=256,
        max_dec=256,
        max_draft=4,
        prefill_chunk=16,
        backends=("xnnpack",),
    )
