"""Stock `generate` with and without one of our caches, and how far the two are apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import GenerationMixin, PreTrainedModel
from transformers.cache_utils import Cache

from exporter.bundle.tolerances import TOLERANCES
from exporter.drop_in.cross_attention import CrossAttentionLayer
from exporter.drop_in.self_attention import SelfAttentionLayer
from exporter.hf import FixedCapacityCache, FixedCapacityEncoderDecoderCache, fixed_capacity_cache

MAX_BATCH, MAX_ENC, MAX_DEC, MAX_DRAFT = 3, 12, 40, 4
"""Limits of `small_cache`."""
FixedCapacity = FixedCapacityCache | FixedCapacityEncoderDecoderCache


@dataclass(frozen=True)
class Answer:
    """Tokens int64[B, T] and the logits of every new one, float32[B, N, V]."""

    tokens: Tensor
    logits: Tensor

    def difference(self, other: Answer) -> float:
        return float((self.logits - other.logits).abs().max())


def small_cache(model: PreTrainedModel, **arguments: Any) -> FixedCapacity:
    """A cache of the limits above, where `arguments` say nothing else."""
    limits: dict[str, Any] = {"max_batch": MAX_BATCH, "max_dec": MAX_DEC, "max_draft": MAX_DRAFT}
    if model.config.is_encoder_decoder:
        limits["max_enc"] = MAX_ENC
    return fixed_capacity_cache(model, **(limits | arguments))


def answer(model: PreTrainedModel, inputs: Tensor, cache: Cache | None = None, **settings: Any) -> Answer:
    """Greedy `generate` that no end-of-sequence ends. Whisper's own wrapper drops logits, so it is left out."""
    settings = {"max_new_tokens": 20, "do_sample": False, "eos_token_id": None, "pad_token_id": 0} | settings
    if cache is not None:
        settings["cache"] = cache
    made = GenerationMixin.generate(model, inputs, return_dict_in_generate=True, output_logits=True, **settings)
    return Answer(made.sequences, torch.stack(made.logits, dim=1))


def check_equal(given: Answer, expected: Answer) -> None:
    """Equal tokens, and logits within what eager rungs are allowed."""
    assert torch.equal(given.tokens, expected.tokens)
    allowed = TOLERANCES["float32", "eager"].absolute(float(expected.logits.abs().max()))
    assert given.difference(expected) <= allowed


def buffers(cache: FixedCapacity) -> list[Tensor]:
    """Every tensor that a cache has allocated."""
    parts = [cache]
    if isinstance(cache, FixedCapacityEncoderDecoderCache):
        parts = [cache.self_attention_cache, cache.cross_attention_cache]
    layers = [layer for part in parts for layer in part.layers]
    return [
        buffer
        for layer in layers
        if isinstance(layer, SelfAttentionLayer | CrossAttentionLayer)
        for buffer in (layer.key_buffer, layer.value_buffer)
    ]


def pointers(cache: FixedCapacity) -> list[int]:
    return [buffer.data_ptr() for buffer in buffers(cache)]


def spoil(cache: FixedCapacity) -> None:
    """NaN wherever nothing live is: reading it would show."""
    for buffer in buffers(cache):
        buffer.fill_(torch.nan)
