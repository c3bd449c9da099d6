"""What a model's caches are, read from its config before anything is allocated.

Shape legend: ``K`` key/value heads, ``D`` head size, ``S`` slots, ``E`` encoder positions.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from transformers import PretrainedConfig, PreTrainedModel
from transformers.cache_utils import get_layer_types_and_kwargs

from exporter.spec.faults import PlanError, raise_if_any
from runtime_shims.contract.cache_geometry import CacheGeometry
from runtime_shims.contract.integers import as_integer, pictured

FULL, SLIDING, NO_CACHE = "full_attention", "sliding_attention", "dummy"
"""Layer types of transformers. A layer of the last one has no keys and values, or reads another layer's."""


@dataclass(frozen=True)
class Capacity:
    """Upper bounds of every request. `max_enc` counts encoder output positions; None for decoder-only models."""

    max_batch: int
    max_enc: int | None
    max_dec: int
    max_draft: int
    dtype: torch.dtype
    device: torch.device


@dataclass(frozen=True)
class LayerPlan:
    """One decoder layer's keys and values. `window` is None on full layers."""

    heads: int
    key_size: int
    value_size: int
    window: int | None

    def geometry(self, capacity: Capacity) -> CacheGeometry:
        """Slots of the self-attention cache. A window wider than the whole request is the request."""
        reach = capacity.max_dec if self.window is None else min(self.window, capacity.max_dec)
        return CacheGeometry("full" if self.window is None else "sliding", reach, capacity.max_draft + 1)

    def self_bytes(self, capacity: Capacity) -> int:
        return self._bytes(capacity, self.geometry(capacity).slots)

    def cross_bytes(self, capacity: Capacity) -> int:
        return 0 if capacity.max_enc is None else self._bytes(capacity, capacity.max_enc)

    def _bytes(self, capacity: Capacity, slots: int) -> int:
        row = self.heads * (self.key_size + self.value_size) * capacity.dtype.itemsize
        return capacity.max_batch * slots * row


@dataclass(frozen=True)
class CachePlan:
    """Every decoder layer, None where there is no cache; the capacity they share."""

    layers: tuple[LayerPlan | None, ...]
    capacity: Capacity

    @property
    def memory_bytes(self) -> int:
        owners = [layer for layer in self.layers if layer is not None]
        return sum(layer.self_bytes(self.capacity) + layer.cross_bytes(self.capacity) for layer in owners)


def plan_caches(model: PreTrainedModel, limits: dict[str, Any], dtype: Any, device: Any) -> CachePlan:
    """The plan for `model`, `limits` being what the caller gave for max_batch, max_enc, max_dec and max_draft.

    Raises:
        PlanError: a `ValueError` that lists every wrong argument and every layer that is not supported.
    """
    if not isinstance(getattr(model, "config", None), PretrainedConfig):
        fault = f"it is made for a model of transformers, got a {type(model).__name__}"
        raise PlanError("a fixed-capacity cache", [fault])
    config = _decoder_config(model.config)
    types, arguments = get_layer_types_and_kwargs(config)
    faults = [*_limit_faults(model.config, limits), *_layer_faults(config, types)]
    faults += _placement_faults(model, dtype, device)
    raise_if_any(PlanError, f"a fixed-capacity cache for {type(model).__name__}", faults)
    capacity = Capacity(
        **limits,
        dtype=model.dtype if dtype is None else dtype,
        device=torch.device(model.device if device is None else device),
    )
    layers = [
        None if kind == NO_CACHE else _layer(layer_config, extra.get("sliding_window"))
        for kind, extra, layer_config in zip(types, arguments, config.per_layer_config, strict=True)
    ]
    return CachePlan(tuple(layers), capacity)


def _decoder_config(config: PretrainedConfig) -> PretrainedConfig:
    """The decoder's half of a config; T5's keeps the depth of its decoder under a name of its own."""
    decoder = config.get_text_config(decoder=True)
    depth = getattr(decoder, "num_decoder_layers", None)
    if depth is not None and depth != decoder.num_hidden_layers:
        decoder = copy.deepcopy(decoder)
        decoder.num_hidden_layers = depth
    return decoder


def _layer(config: PretrainedConfig, window: int | None) -> LayerPlan:
    """Head count and sizes of one layer."""
    query_heads = config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // query_heads
    return LayerPlan(
        heads=_cached_heads(config),
        key_size=size,
        value_size=getattr(config, "v_head_dim", None) or size,
        window=window,
    )


def _cached_heads(config: PretrainedConfig) -> int:
    """Heads that transformers' own code caches; Falcon's gives each query head a copy of what its group shares."""
    query_heads = int(config.num_attention_heads)
    if config.model_type == "falcon":
        return 1 if config.multi_query and not config.new_decoder_architecture else query_heads
    return getattr(config, "num_key_value_heads", None) or query_heads


def _limit_faults(config: PretrainedConfig, limits: dict[str, Any]) -> list[str]:
    faults = []
    for name, value in limits.items():
        least = 0 if name == "max_draft" else 1
        number = as_integer(value)
        if not (name == "max_enc" and value is None) and (number is None or number < least):
            faults.append(f"{name} must be an integer >= {least}, got {pictured(value)}")
    if config.is_encoder_decoder and limits["max_enc"] is None:
        faults.append("an encoder-decoder model needs max_enc, the most encoder output positions")
    if not config.is_encoder_decoder and limits["max_enc"] is not None:
        faults.append("a decoder-only model has no encoder: leave max_enc out")
    return faults


def _layer_faults(config: PretrainedConfig, types: list[str]) -> list[str]:
    """One fault per kind of layer that is neither full nor sliding attention."""
    strange = sorted(set(types) - {FULL, SLIDING, NO_CACHE})
    latent = ["latent attention (kv_lora_rank) caches neither keys nor values, and is not supported"]
    return (latent if getattr(config, "kv_lora_rank", None) else []) + [
        f"{types.count(kind)} of {len(types)} layers are {kind}, only {FULL} and {SLIDING} are supported"
        for kind in strange
    ]


def _placement_faults(model: PreTrainedModel, dtype: Any, device: Any) -> list[str]:
    faults = []
    devices = {str(place) for place in (getattr(model, "hf_device_map", None) or {}).values()}
    if len(devices) > 1:
        faults.append(f"the model is spread over {', '.join(sorted(devices))}, one device is supported")
    if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
        faults.append(f"dtype must be a floating-point torch.dtype, got {pictured(dtype)}")
    try:
        torch.device("cpu" if device is None else device)
    except (RuntimeError, TypeError):
        faults.append(f"device must be a torch.device or the name of one, got {pictured(device)}")
    return faults
