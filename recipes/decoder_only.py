"""Recipes for decoder-only models."""

from __future__ import annotations

from exporter.spec.recipe import Recipe


def smollm2_135m() -> Recipe:
    """Complete one text of up to 2048 tokens."""
    return Recipe(
        model="HuggingFaceTB/SmolLM2-135M",
        max_batch=1,
        max_dec=2048,
        max_draft=4,
        prefill_chunk=128,
        backends=("xnnpack",),
    )


def gemma_3_270m() -> Recipe:
    """Complete one text of up to 8192 tokens; five of six layers keep a window of 512."""
    return Recipe(
        model="google/gemma-3-270m",
        max_batch=1,
        max_dec=8192,
        max_draft=4,
        prefill_chunk=128,
        backends=("xnnpack",),
    )


def qwen3_0_6b() -> Recipe:
    """Complete one text of up to 4096 tokens."""
    return Recipe(
        model="Qwen/Qwen3-0.6B",
        max_batch=1,
        max_dec=4096,
        max_draft=4,
        prefill_chunk=128,
        backends=("xnnpack",),
    )


def gpt2() -> Recipe:
    """Complete four texts of up to 1024 tokens at once."""
    return Recipe(
        model="openai-community/gpt2",
        max_batch=4,
        max_dec=1024,
        max_draft=4,
        prefill_chunk=128,
        backends=("xnnpack",),
    )
