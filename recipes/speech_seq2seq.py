"""Recipes for speech encoder-decoders: 30 seconds at a time.

On phones and boards weights have 8 bits and caches 16, and a transcript has room for 224 tokens, half of what the
models can address; on laptops four recordings are decoded at once, in 16 bits.
"""

from __future__ import annotations

from dataclasses import replace

from exporter.spec.deployment import Deployment
from exporter.spec.recipe import Recipe


def whisper_tiny_en() -> Deployment:
    """Transcribe English speech."""
    recipe = Recipe("openai/whisper-tiny.en", max_enc=1500, max_dec=448, max_draft=4, prefill_chunk=16)
    phone = replace(recipe, max_dec=224, quantize="8da8w", dtype="float16")
    return Deployment(recipe, phone=phone, board=phone, laptop=replace(recipe, max_batch=4, dtype="float16"))


def whisper_tiny() -> Deployment:
    """Transcribe speech in 99 languages."""
    recipe = Recipe("openai/whisper-tiny", max_enc=1500, max_dec=448, max_draft=4, prefill_chunk=16)
    phone = replace(recipe, max_dec=224, quantize="8da8w", dtype="float16")
    return Deployment(recipe, phone=phone, board=phone, laptop=replace(recipe, max_batch=4, dtype="float16"))


def whisper_base_en() -> Deployment:
    """What whisper-tiny.en does, better."""
    recipe = Recipe("openai/whisper-base.en", max_enc=1500, max_dec=448, max_draft=4, prefill_chunk=16)
    phone = replace(recipe, max_dec=224, quantize="8da8w", dtype="float16")
    return Deployment(recipe, phone=phone, board=phone, laptop=replace(recipe, max_batch=4, dtype="float16"))


def whisper_base() -> Deployment:
    """What whisper-tiny does, better."""
    recipe = Recipe("openai/whisper-base", max_enc=1500, max_dec=448, max_draft=4, prefill_chunk=16)
    phone = replace(recipe, max_dec=224, quantize="8da8w", dtype="float16")
    return Deployment(recipe, phone=phone, board=phone, laptop=replace(recipe, max_batch=4, dtype="float16"))


def whisper_small_en() -> Deployment:
    """What whisper-base.en does, better."""
    recipe = Recipe("openai/whisper-small.en", max_enc=1500, max_dec=448, max_draft=4, prefill_chunk=16)
    phone = replace(recipe, max_dec=224, quantize="8da8w", dtype="float16")
    return Deployment(recipe, phone=phone, board=phone, laptop=replace(recipe, max_batch=4, dtype="float16"))


def whisper_small() -> Deployment:
    """What whisper-base does, better."""
    recipe = Recipe("openai/whisper-small", max_enc=1500, max_dec=448, max_draft=4, prefill_chunk=16)
    phone = replace(recipe, max_dec=224, quantize="8da8w", dtype="float16")
    return Deployment(recipe, phone=phone, board=phone, laptop=replace(recipe, max_batch=4, dtype="float16"))


def distil_small_en() -> Deployment:
    """whisper-small.en with 4 layers of decoder, not 12."""
    recipe = Recipe("distil-whisper/distil-small.en", max_enc=1500, max_dec=448, max_draft=4, prefill_chunk=16)
    phone = replace(recipe, max_dec=224, quantize="8da8w", dtype="float16")
    return Deployment(recipe, phone=phone, board=phone, laptop=replace(recipe, max_batch=4, dtype="float16"))


def distil_medium_en() -> Deployment:
    """whisper-medium.en with 2 layers of decoder, not 24."""
    recipe = Recipe("distil-whisper/distil-medium.en", max_enc=1500, max_dec=448, max_draft=4, prefill_chunk=16)
    phone = replace(recipe, max_dec=224, quantize="8da8w", dtype="float16")
    return Deployment(recipe, phone=phone, board=phone, laptop=replace(recipe, max_batch=4, dtype="float16"))
