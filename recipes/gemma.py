"""Recipes for Gemma 3 and 4, most of whose layers keep a window of 512 positions: contexts cost little.

On phones and boards weights and caches have 8 bits, on laptops 16.
"""

from __future__ import annotations

from dataclasses import replace

from exporter.spec.deployment import Deployment
from exporter.spec.recipe import Recipe


def gemma_3_270m() -> Deployment:
    """Complete texts; a base to train on a task."""
    recipe = Recipe("google/gemma-3-270m", max_dec=8192, max_draft=4, prefill_chunk=128)
    phone = replace(recipe, quantize="int8-weights-kv")
    laptop = replace(recipe, max_dec=32768, dtype="float16")
    return Deployment(recipe, phone=phone, board=replace(phone, max_dec=4096), laptop=laptop, greedy=True)


def gemma_3_270m_it() -> Deployment:
    """Follow instructions."""
    recipe = Recipe("google/gemma-3-270m-it", max_dec=8192, max_draft=4, prefill_chunk=128)
    phone = replace(recipe, quantize="int8-weights-kv")
    laptop = replace(recipe, max_dec=32768, dtype="float16")
    return Deployment(recipe, phone=phone, board=replace(phone, max_dec=4096), laptop=laptop, greedy=True)


def gemma_3_1b_it() -> Deployment:
    """Chat and follow instructions."""
    recipe = Recipe("google/gemma-3-1b-it", max_dec=8192, max_draft=4, prefill_chunk=128)
    phone = replace(recipe, quantize="int8-weights-kv")
    laptop = replace(recipe, max_dec=32768, dtype="float16")
    return Deployment(recipe, phone=phone, board=replace(phone, max_dec=4096), laptop=laptop, greedy=True)


def gemma_4_e2b() -> Deployment:
    """Chat, with the assistant that drafts for it."""
    recipe = Recipe(
        "google/gemma-4-E2B-it", max_dec=8192, max_draft=4, prefill_chunk=128, dtype="float16", draft="mtp"
    )
    phone = replace(recipe, max_dec=2048, prefill_chunk=32, quantize="8da4w", embedding_bits=4)
    laptop = replace(recipe, max_dec=32768, quantize="8da8w")
    return Deployment(recipe, phone=phone, board=replace(phone, max_dec=1024), laptop=laptop, greedy=True)
