"""Recipes for Moonshine, whose encoder follows the length of the sound: 384 samples of 16 kHz give a position.

1,248 positions are 30 seconds. The smaller model addresses 194 tokens, which is what it writes of as much speech.
"""

from __future__ import annotations

from dataclasses import replace

from exporter.spec.deployment import Deployment
from exporter.spec.recipe import Recipe


def moonshine_tiny() -> Deployment:
    """Transcribe English speech as it comes, the smallest."""
    recipe = Recipe("UsefulSensors/moonshine-tiny", max_enc=1248, max_dec=194, max_draft=4, prefill_chunk=16)
    phone = replace(recipe, quantize="8da8w", dtype="float16")
    return Deployment(recipe, phone=phone, board=phone, laptop=replace(recipe, max_batch=4, dtype="float16"))


def moonshine_base() -> Deployment:
    """What moonshine-tiny does, better."""
    recipe = Recipe("UsefulSensors/moonshine-base", max_enc=1248, max_dec=194, max_draft=4, prefill_chunk=16)
    phone = replace(recipe, quantize="8da8w", dtype="float16")
    return Deployment(recipe, phone=phone, board=phone, laptop=replace(recipe, max_batch=4, dtype="float16"))
