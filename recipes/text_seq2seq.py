"""Recipes for text encoder-decoders.

On phones and boards weights have 8 bits and caches 16; on laptops both have 16 bits.
"""

from __future__ import annotations

from dataclasses import replace

from exporter.spec.deployment import Deployment
from exporter.spec.recipe import Recipe


def t5_small() -> Deployment:
    """Translate out of English, and summarise short texts."""
    recipe = Recipe("google-t5/t5-small", max_batch=8, max_enc=512, max_dec=256, max_draft=4, prefill_chunk=16)
    phone = replace(recipe, max_batch=1, quantize="8da8w", dtype="float16")
    return Deployment(recipe, phone=phone, board=phone, laptop=replace(recipe, dtype="float16"))


def t5_base() -> Deployment:
    """What t5-small does, better."""
    recipe = Recipe("google-t5/t5-base", max_batch=4, max_enc=512, max_dec=256, max_draft=4, prefill_chunk=16)
    phone = replace(recipe, max_batch=1, quantize="8da8w", dtype="float16")
    return Deployment(recipe, phone=phone, board=phone, laptop=replace(recipe, dtype="float16"))


def flan_t5_small() -> Deployment:
    """Follow instructions on short texts."""
    recipe = Recipe("google/flan-t5-small", max_batch=4, max_enc=512, max_dec=256, max_draft=4, prefill_chunk=16)
    phone = replace(recipe, max_batch=1, quantize="8da8w", dtype="float16")
    return Deployment(recipe, phone=phone, board=phone, laptop=replace(recipe, dtype="float16"))


def flan_t5_base() -> Deployment:
    """What flan-t5-small does, better."""
    recipe = Recipe("google/flan-t5-base", max_batch=4, max_enc=512, max_dec=256, max_draft=4, prefill_chunk=16)
    phone = replace(recipe, max_batch=1, quantize="8da8w", dtype="float16")
    return Deployment(recipe, phone=phone, board=phone, laptop=replace(recipe, dtype="float16"))


def bart_base_cnn() -> Deployment:
    """Summarise news articles in little memory."""
    recipe = Recipe("ainize/bart-base-cnn", max_batch=1, max_enc=1024, max_dec=142, max_draft=4, prefill_chunk=16)
    phone = replace(recipe, quantize="8da8w", dtype="float16")
    laptop = replace(recipe, max_batch=4, dtype="float16")
    return Deployment(recipe, phone=phone, board=replace(phone, max_enc=512), laptop=laptop, greedy=True)


def bart_large_cnn() -> Deployment:
    """Summarise news articles."""
    recipe = Recipe("facebook/bart-large-cnn", max_batch=1, max_enc=1024, max_dec=142, max_draft=4, prefill_chunk=16)
    phone = replace(recipe, quantize="8da8w", dtype="float16")
    laptop = replace(recipe, max_batch=4, dtype="float16")
    return Deployment(recipe, phone=phone, board=replace(phone, max_enc=512), laptop=laptop, greedy=True)


def opus_mt_en_de() -> Deployment:
    """Translate sentences; other pairs by their MODEL.

    As in `export-model Helsinki-NLP/opus-mt-fr-en --recipe opus-mt-en-de`.
    """
    recipe = Recipe("Helsinki-NLP/opus-mt-en-de", max_batch=8, max_enc=256, max_dec=256, max_draft=4, prefill_chunk=16)
    phone = replace(recipe, max_batch=1, quantize="8da8w", dtype="float16")
    laptop = replace(recipe, dtype="float16")
    return Deployment(recipe, phone=phone, board=replace(phone, max_enc=128, max_dec=128), laptop=laptop, greedy=True)
