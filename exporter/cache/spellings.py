"""The spellings that an exported program can use: the fused C++ operator, core operators, or ONNX's."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import torch
from torch import Tensor

from runtime_shims.contract.manifest import Attention

from . import core_form
from .attention_binding import Attend, BiasTable, Spelling, States
from .cached_attention import operators
from .onnx_form import OnnxSpelling

ONNX = cast("Attention", "onnx")
"""The spelling of ONNX programs, whose manifests say `portable`: it needs no library of ours either."""


class FusedSpelling:
    """One `fixed_capacity::*` operator per attention; live positions only, caches written in place."""

    flat_caches = False

    def __init__(self) -> None:
        self.ops = operators()

    def self_attention(self, call: Attend, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        layer, step = call.cache, call.step
        table, origin = _table(call)
        return self.ops.cached_attention(
            query.contiguous(),
            key.contiguous(),
            value.contiguous(),
            layer.key_cache,
            layer.value_cache,
            step.positions,
            step.step_lengths,
            table,
            origin,
            call.window,
            call.scale,
            call.softcap,
            call.sinks,
        )

    def shared_attention(self, call: Attend, query: Tensor) -> Tensor:
        layer, step = call.cache, call.step
        options = (*_table(call), call.window, call.scale, call.softcap)
        steps = (step.positions, step.step_lengths)
        return self.ops.shared_attention(query.contiguous(), layer.key_cache, layer.value_cache, *steps, *options)

    def cross_attention(self, call: Attend, query: Tensor) -> Tensor:
        layer = call.cache
        return self.ops.cross_attention(
            query.contiguous(),
            layer.key_cache,
            layer.value_cache,
            call.step.enc_lengths,
            call.scale,
            call.softcap,
        )

    def merged_attention(self, call: Attend, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        layer, source, step = call.cache, call.source, call.step
        states = (query.contiguous(), key.contiguous(), value.contiguous())
        caches = (layer.key_cache, layer.value_cache, source.key_cache, source.value_cache)
        lengths = (step.positions, step.step_lengths, step.enc_lengths)
        return self.ops.merged_attention(*states, *caches, *lengths, call.window, call.scale, call.softcap)

    def encoder_attention(self, call: Attend, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        table, origin = _table(call)
        return self.ops.encoder_attention(
            query.contiguous(),
            key.contiguous(),
            value.contiguous(),
            call.step.enc_lengths,
            table,
            origin,
            call.scale,
            call.softcap,
        )

    def write_cross(self, call: Attend, key: Tensor, value: Tensor) -> Tensor:
        layer = call.cache
        return self.ops.write_cross(
            key.contiguous(), value.contiguous(), layer.key_cache, layer.value_cache, call.step.enc_lengths
        )


class CoreSpelling:
    """Core ATen operators over flat caches; runs on any ExecuTorch runtime.

    Masks and write indices depend on the step and a layer's geometry only, so each is made once per step.
    """

    flat_caches = True

    def self_attention(self, call: Attend, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        self._write_step(call, query, (key, value))
        return self.shared_attention(call, query)

    def _write_step(self, call: Attend, query: Tensor, states: States) -> None:
        layer, step = call.cache, call.step
        written_bT = self._written(call, query)
        write = step.once(("write", layer.kv_heads, layer.slots), lambda: self._ring_write(call, written_bT))
        for cache, state in zip((layer.key_cache, layer.value_cache), states, strict=True):
            write(cache, state)

    def shared_attention(self, call: Attend, query: Tensor) -> Tensor:
        out = core_form.attend_cache(query, call.cache, self._ring_mask(call, query), call)
        return torch.where(self._written(call, query)[:, :, None, None], out, 0.0)

    def _ring_mask(self, call: Attend, query: Tensor) -> Tensor:
        layer = call.cache
        mask_key = ("mask", layer.slots, call.window, layer.kv_heads, query.shape[1], id(call.bias))
        return call.step.once(mask_key, lambda: self._self_mask(call, query))

    def merged_attention(self, call: Attend, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        self._write_step(call, query, (key, value))
        of_source = replace(call, layer=call.source)
        masks = (self._ring_mask(call, query), self._source_mask(of_source, query))
        out = core_form.attend_caches(query, (call.cache, call.source), masks, call)
        return torch.where(self._written(call, query)[:, :, None, None], out, 0.0)

    def _source_mask(self, call: Attend, query: Tensor) -> Tensor:
        mask_key = ("cross", call.cache.kv_heads, query.shape[1])
        return call.step.once(mask_key, lambda: self._cross_mask(call, query))

    def _written(self, call: Attend, query: Tensor) -> Tensor:
        step, step_tokens = call.step, query.shape[2]
        return step.once("written", lambda: torch.arange(step_tokens) < step.step_lengths[:, None])

    def _ring_write(self, call: Attend, written_bT: Tensor) -> core_form.FlatWrite:
        layer, step = call.cache, call.step
        positions_bT = step.positions[:, None] + torch.arange(written_bT.shape[1])
        slots_bT = torch.remainder(positions_bT, layer.slots)
        return core_form.flat_write(slots_bT, written_bT, layer.kv_heads, layer.slots)

    def _self_mask(self, call: Attend, query: Tensor) -> Tensor:
        layer, step = call.cache, call.step
        mask, distances = core_form.self_mask(
            step.positions, step.step_lengths, query.shape[2], layer.rows, layer.slots, call.window
        )
        mask = mask if call.bias is None else mask + _bias(call.bias, distances)
        return core_form.fold_mask(mask, layer.kv_heads, query)

    def cross_attention(self, call: Attend, query: Tensor) -> Tensor:
        out = core_form.attend_cache(query, call.cache, self._source_mask(call, query), call)
        return torch.where((call.step.enc_lengths > 0)[:, None, None, None], out, 0.0)

    def _cross_mask(self, call: Attend, query: Tensor) -> Tensor:
        layer = call.cache
        mask = core_form.length_mask(call.step.enc_lengths, layer.rows, layer.slots)
        return core_form.fold_mask(mask, layer.kv_heads, query)

    def encoder_attention(self, call: Attend, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        step, places = call.step, query.shape[2]
        key, value = core_form.for_every_head(key, query), core_form.for_every_head(value, query)
        inside_bE = step.once("inside", lambda: torch.arange(places) < step.enc_lengths[:, None])
        mask = step.once(("encoder", id(call.bias)), lambda: self._encoder_mask(call, inside_bE))
        states = (key.contiguous().flatten(0, 1), value.contiguous().flatten(0, 1))
        out = core_form.attend(query * call.scale, states, mask, call.softcap, key.shape[1])
        return torch.where(inside_bE[:, :, None, None], out, 0.0)

    def _encoder_mask(self, call: Attend, inside_bE: Tensor) -> Tensor:
        mask = torch.where(inside_bE, 0.0, core_form.MASKED_SCORE)[:, None, None, :]
        if call.bias is not None:
            places_E = torch.arange(inside_bE.shape[1])
            mask = mask + _bias(call.bias, (places_E[:, None] - places_E[None, :])[None])
        return mask

    def write_cross(self, call: Attend, key: Tensor, value: Tensor) -> Tensor:
        layer, step = call.cache, call.step
        write = step.once("write_cross", lambda: self._cross_write(call, key))
        write(layer.key_cache, key)
        write(layer.value_cache, value)
        return step.enc_lengths.clone()

    def _cross_write(self, call: Attend, key: Tensor) -> core_form.FlatWrite:
        places_E = torch.arange(key.shape[2])
        slots_bE = places_E[None, :].expand(key.shape[0], key.shape[2])
        written_bE = places_E < call.step.enc_lengths[:, None]
        return core_form.flat_write(slots_bE, written_bE, call.cache.kv_heads, call.cache.slots)


def _bias(bias: BiasTable, distances_BTS: Tensor) -> Tensor:
    return core_form.bias_from_table(bias.table_HN, distances_BTS, bias.origin)


def _table(call: Attend) -> tuple[Tensor | None, int]:
    return (None, 0) if call.bias is None else (call.bias.table_HN, call.bias.origin)


def spelling_of(backend: str, attention: Attention) -> Attention:
    """The spelling for a backend of an export with this `--attention`."""
    return ONNX if backend == "onnx" else attention


def spelling_for(attention: Attention) -> Spelling:
    """`fused`, `portable` or `onnx`. Raises ValueError for anything else."""
    if attention == "fused":
        return FusedSpelling()
    if attention == "portable":
        return CoreSpelling()
    if attention == ONNX:
        return OnnxSpelling()
    raise ValueError(f"attention must be fused, portable or onnx, got {attention!r}")
