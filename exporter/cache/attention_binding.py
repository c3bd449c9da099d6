"""How transformers models reach the operator: one attention function, registered under one name.

Each attention module of a model is bound to a role (self, cross, encoder), a cache layer and a spelling. The
function looks up the binding on the module, so model files run unchanged and never know which spelling runs. No
mask function is registered under the name: transformers then makes no masks at all.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn
from transformers import AttentionInterface

from .cache_layer import CacheLayer

ATTENTION_NAME = "fixed_capacity"
BINDING_ATTRIBUTE = "fixed_capacity_binding"

Role = Literal["self", "shared", "cross", "merged", "encoder"]
"""`shared`: self-attention over keys and values that another layer has written. `merged`: over those of the step and of
the encoder, under one softmax."""
States = tuple[Tensor, Tensor]
"""Keys and values."""
Source = Literal["step", "encoder"]
"""What keys and values were made of."""


@dataclass
class StepContext:
    """The inputs of the step being run, for attention, position tables and the logit rows to read.

    positions/step_lengths/enc_lengths/sample_lengths int64 `[b]`, logit_rows int64 `[b, r]`; a method sets those it
    takes and reads no other. `hidden` `[b, r, C]` are the states of those rows, once the head has been reached.
    `handed` is what layers with merged attention, by index, gave to their caches: their attention gets it joined.
    `encoding` is true while the encoder's keys and values are being written: decoder self-attention then does nothing.
    """

    positions: Tensor = None
    step_lengths: Tensor = None
    enc_lengths: Tensor = None
    sample_lengths: Tensor = None
    logit_rows: Tensor = None
    hidden: Tensor = None
    encoding: bool = False
    handed: dict[tuple[Source, int], States] = field(default_factory=dict)
    written_lengths: list[Tensor] = field(default_factory=list)
    made: dict[Hashable, Any] = field(default_factory=dict)

    def begin(self, **inputs) -> None:
        """Start a step: every field takes its given value or its default."""
        self.__init__(**inputs)  # type: ignore[misc]

    def once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """A tensor that all layers of one geometry share in this step (masks, write indices): made on first use."""
        if key not in self.made:
            self.made[key] = make()
        return self.made[key]


@dataclass(frozen=True)
class BiasTable:
    """A `[H, N]` relative-bias buffer and the index of distance 0 in it."""

    holder: nn.Module
    origin: int

    @property
    def table_HN(self) -> Tensor:
        return self.holder.table_HN


@dataclass(frozen=True)
class Attend:
    """What one attention call needs besides its tensors.

    Attributes:
        sinks: `[H]`; they come with decoder self-attention alone.
        own_window: stands in for the layer's.
        cross: the cache of the encoder's keys that merged attention reads beside the layer's.
    """

    step: StepContext
    layer: CacheLayer | None
    bias: BiasTable | None
    scale: float
    softcap: float | None
    sinks: Tensor | None = None
    own_window: int | None = None
    cross: CacheLayer | None = None

    @property
    def window(self) -> int | None:
        """Positions a query may look back on, itself included; None when it sees everything."""
        return self.cache.window if self.own_window is None else self.own_window

    @property
    def cache(self) -> CacheLayer:
        """The layer's cache. Encoder attention has none and must not ask."""
        if self.layer is None:
            raise ValueError("this attention is bound without a cache")
        return self.layer

    @property
    def source(self) -> CacheLayer:
        """The cache of the encoder's keys. Only merged attention has one beside its own."""
        if self.cross is None:
            raise ValueError("this attention is bound without a cross cache")
        return self.cross


class Spelling(Protocol):
    """One form of the operator (fused kernel or core operators). All attentions return `[b, T, H, Dv]`."""

    flat_caches: bool

    def self_attention(self, call: Attend, query: Tensor, key: Tensor, value: Tensor) -> Tensor: ...
    def shared_attention(self, call: Attend, query: Tensor) -> Tensor: ...
    def cross_attention(self, call: Attend, query: Tensor) -> Tensor: ...
    def merged_attention(self, call: Attend, query: Tensor, key: Tensor, value: Tensor) -> Tensor: ...
    def encoder_attention(self, call: Attend, query: Tensor, key: Tensor, value: Tensor) -> Tensor: ...
    def write_cross(self, call: Attend, key: Tensor, value: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class AttentionBinding:
    """Set on an attention module as a plain attribute, so that its layer keeps exactly one name in the model."""

    role: Role
    spelling: Spelling
    step: StepContext
    layer: CacheLayer | None = None
    bias: BiasTable | None = None
    own_window: int | None = None
    cross: CacheLayer | None = None


def attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None = None,
    scaling: float | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **kwargs,
) -> tuple[Tensor, None]:
    """The registered attention function: query `[b, H, T, D]`, key/value `[b, K, T, D]` -> `[b, T, H, Dv]`.

    `s_aux` are attention sinks `[H]`.
    """
    binding: AttentionBinding = getattr(module, BINDING_ATTRIBUTE)
    if s_aux is not None and binding.role != "self":
        raise ValueError(f"{type(module).__name__} has attention sinks, which only decoder self-attention may have")
    step, spelling = binding.step, binding.spelling
    scale = float(query.shape[-1] ** -0.5 if scaling is None else scaling)
    call = Attend(step, binding.layer, binding.bias, scale, softcap, s_aux, binding.own_window, binding.cross)
    if binding.role == "encoder":
        return spelling.encoder_attention(call, query, key, value), None
    if step.encoding:
        if binding.role == "cross":
            step.written_lengths.append(spelling.write_cross(call, key, value))
        if binding.role == "merged":
            of_source = replace(call, layer=call.source)
            states = step.handed["encoder", module.layer_idx]
            step.written_lengths.append(spelling.write_cross(of_source, *states))
        return query.transpose(1, 2), None  # this result reaches nothing: only the cross caches leave `encode`
    if binding.role == "cross":
        return spelling.cross_attention(call, query), None
    if binding.role == "merged":
        return spelling.merged_attention(call, query, *step.handed["step", module.layer_idx]), None
    if binding.role == "shared":
        return spelling.shared_attention(call, query), None
    return spelling.self_attention(call, query, key, value), None


def bind(module: nn.Module, binding: AttentionBinding) -> None:
    """Attach a binding; `nn.Module.__setattr__` keeps plain objects out of the module tree."""
    setattr(module, BINDING_ATTRIBUTE, binding)


def use_operator(model: nn.Module) -> None:
    """Switch a transformers model (all of its submodels) to the operator."""
    AttentionInterface.register(ATTENTION_NAME, attention)
    model.set_attn_implementation(ATTENTION_NAME)


def positions_bT(step: StepContext, step_tokens: int, limit: int | None = None) -> Tensor:
    """Absolute position of each step token, int64 `[b, T]`; clamped to a table of `limit` rows for padding."""
    positions = step.positions[:, None] + torch.arange(step_tokens)
    return positions if limit is None else positions.clamp(max=limit - 1)
