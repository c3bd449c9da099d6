"""Recipes for decoder-only models: GPT-2, Llama, SmolLM 2 and Qwen.

On phones and boards weights and caches have 8 bits, on laptops 16.
"""

from __future__ import annotations

from dataclasses import replace

from exporter.spec.deployment import Deployment
from exporter.spec.recipe import Recipe


def smollm2_135m() -> Deployment:
    """Complete English texts."""
    recipe = Recipe("HuggingFaceTB/SmolLM2-135M", max_dec=2048, max_draft=4, prefill_chunk=128)
    phone = replace(recipe, quantize="int8-weights-kv")
    laptop = replace(recipe, max_dec=8192, dtype="float16")
    return Deployment(recipe, phone=phone, board=phone, laptop=laptop)


def smollm2_135m_instruct() -> Deployment:
    """Chat in English."""
    recipe = Recipe("HuggingFaceTB/SmolLM2-135M-Instruct", max_dec=2048, max_draft=4, prefill_chunk=128)
    phone = replace(recipe, quantize="int8-weights-kv")
    laptop = replace(recipe, max_dec=8192, dtype="float16")
    return Deployment(recipe, phone=phone, board=phone, laptop=laptop)


def smollm2_360m() -> Deployment:
    """What smollm2-135m does, better."""
    recipe = Recipe("HuggingFaceTB/SmolLM2-360M", max_dec=2048, max_draft=4, prefill_chunk=128)
    phone = replace(recipe, max_dec=4096, quantize="int8-weights-kv")
    laptop = replace(recipe, max_dec=8192, dtype="float16")
    return Deployment(recipe, phone=phone, board=replace(phone, max_dec=2048), laptop=laptop)


def smollm2_360m_instruct() -> Deployment:
    """What smollm2-135m-instruct does, better."""
    recipe = Recipe("HuggingFaceTB/SmolLM2-360M-Instruct", max_dec=2048, max_draft=4, prefill_chunk=128)
    phone = replace(recipe, max_dec=4096, quantize="int8-weights-kv")
    laptop = replace(recipe, max_dec=8192, dtype="float16")
    return Deployment(recipe, phone=phone, board=replace(phone, max_dec=2048), laptop=laptop)


def qwen3_0_6b() -> Deployment:
    """Chat in 100 languages; can think first."""
    recipe = Recipe("Qwen/Qwen3-0.6B", max_dec=4096, max_draft=4, prefill_chunk=128)
    phone = replace(recipe, quantize="int8-weights-kv")
    laptop = replace(recipe, max_dec=16384, dtype="float16")
    return Deployment(recipe, phone=phone, board=replace(phone, max_dec=2048), laptop=laptop, greedy=True)


def llama_3_2_1b() -> Deployment:
    """Complete texts in eight languages."""
    recipe = Recipe("meta-llama/Llama-3.2-1B", max_dec=4096, max_draft=4, prefill_chunk=128)
    phone = replace(recipe, quantize="int8-weights-kv")
    laptop = replace(recipe, max_dec=16384, dtype="float16")
    return Deployment(recipe, phone=phone, board=replace(phone, max_dec=2048), laptop=laptop, greedy=True)


def llama_3_2_1b_instruct() -> Deployment:
    """Chat in eight languages."""
    recipe = Recipe("meta-llama/Llama-3.2-1B-Instruct", max_dec=4096, max_draft=4, prefill_chunk=128)
    phone = replace(recipe, quantize="int8-weights-kv")
    laptop = replace(recipe, max_dec=16384, dtype="float16")
    return Deployment(recipe, phone=phone, board=replace(phone, max_dec=2048), laptop=laptop, greedy=True)


def gpt2() -> Deployment:
    """Complete English texts."""
    recipe = Recipe("openai-community/gpt2", max_batch=4, max_dec=1024, max_draft=4, prefill_chunk=128)
    phone = replace(recipe, max_batch=1, quantize="int8-weights-kv")
    return Deployment(recipe, phone=phone, board=phone, laptop=replace(recipe, dtype="float16"))
