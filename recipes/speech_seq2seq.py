"""Recipes for speech encoder-decoders."""

from __future__ import annotations

from exporter.spec.recipe import Recipe


def whisper_tiny_en() -> Recipe:
    """Transcribe one English recording of 30 seconds."""
    return Recipe(
        model="openai/whisper-tiny.en",
        max_batch=1,
        max_enc=1500,
        max_dec=448,
        max_draft=4,
        prefill_chunk=16,
        backends=("xnnpack",),
    )
