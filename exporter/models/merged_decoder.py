"""What decoders take whose layers attend to their own keys and the encoder's under one softmax (T5Gemma 2).

Such a layer projects the encoder's states with the matrices of its own keys and values, joins both, and calls one
attention. The operator reads both from caches, so what a layer hands to its caches is noted on the way, and what it
joins is dead code.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers.cache_utils import Cache, EncoderDecoderCache

from exporter.cache.attention_binding import Source, StepContext
from exporter.cache.cache_layer import CacheLayer

from .fixed_capacity_model import FixedCapacityModel


class NotedCache(Cache):
    """Layers whose `update` hands the step through, and notes it for the attention behind it."""

    def __init__(self, layers: list[CacheLayer], step: StepContext, source: Source) -> None:
        super().__init__(layers=layers)
        self.step, self.source = step, source

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """The states `[b, K, T, D]` themselves."""
        self.step.handed[self.source, layer_idx] = (key_states, value_states)
        return super().update(key_states, value_states, layer_idx, *args, **kwargs)


def is_merged(attention: nn.Module) -> bool:
    return type(attention).__name__.endswith("MergedAttention")


def has_merged_attention(decoder: nn.Module) -> bool:
    return any(is_merged(module) for module in decoder.modules())


def noted_caches(root: FixedCapacityModel) -> EncoderDecoderCache:
    """Caches that a layer hands both its keys and the encoder's, in every call: those of a dummy are dead code."""
    own = NotedCache(list(root.self_layers), root.step, "step")
    return EncoderDecoderCache(own, NotedCache(list(root.cross_layers), root.step, "encoder"))


def unread_masks(root: FixedCapacityModel) -> dict[str, Any]:
    """Masks that such a decoder joins before any layer runs, and the operator makes for itself; others take none."""
    if not has_merged_attention(root.model.get_decoder()):
        return {}
    mask = torch.zeros(1)
    kinds = ("full_attention", "sliding_attention")
    return {"attention_mask": {kinds[0]: mask}, "decoder_attention_mask": dict.fromkeys(kinds, mask)}
