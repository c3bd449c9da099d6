"""The cache operator in ONNX's operators: the spelling of `--backend onnx`.

Caches are inputs and outputs of the traced graph, `[b, K, S, D]`, where b is the batch of the call. A step is written
by `TensorScatter`, whose result is the cache that attention reads and the graph returns. Padding writes back what its
slot held; that value is read from the graph's input and the scatter depends on it, so it is read before a write in
place. Nothing else reads the input. Outside of a trace the layers' own buffers are the caches, and the same arithmetic
runs in eager PyTorch.

Shape legend: as in `cached_attention.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from .attention_binding import Attend, BiasTable
from .cache_layer import CacheLayer
from .core_form import for_every_head
from .onnx_operators import attend, attend_two, onnx_operators
from .stored_states import as_stored

MASKED_SCORE = -1e9  # finite: -inf in a row that sees nothing becomes NaN
Caches = tuple[Tensor, Tensor]


class OnnxSpelling:
    """Masks and write positions depend on the step and a layer's geometry only, so each is made once per step."""

    flat_caches = False

    def __init__(self) -> None:
        self.ops = onnx_operators()
        self._given: dict[CacheLayer, Caches] | None = None

    @contextmanager
    def given(self, layers: Sequence[CacheLayer], caches: Sequence[Caches]) -> Iterator[dict[CacheLayer, Caches]]:
        """Use these caches `[b, K, S, D]` in place of the layers' buffers; the mapping follows every write."""
        self._given = dict(zip(layers, caches, strict=True))
        try:
            yield self._given
        finally:
            self._given = None

    def self_attention(self, call: Attend, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return self._attend_ring(call, query, self._write_step(call, (key, value)))

    def _write_step(self, call: Attend, states: Caches) -> Caches:
        layer, step_tokens = call.cache, states[0].shape[2]
        slots_bT = call.step.once(("slots", layer.slots), lambda: self._ring_slots(call, step_tokens))
        return self._write(layer, states, slots_bT, self._written(call, step_tokens))

    def merged_attention(self, call: Attend, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        (heads, step_tokens), kv_heads = query.shape[1:3], key.shape[1]
        caches = (self._write_step(call, (key, value)), self._caches(call.source, query.shape[0]))
        masks = (self._ring_mask(call, step_tokens), self._source_mask(call, call.source))
        folded, (in_ring, in_source) = fold_groups(as_stored(query * call.scale, caches[0][0].dtype), masks, kv_heads)
        out = attend_two(folded, caches, (in_ring, in_source), call.softcap)
        out = unfold_groups(out, heads, step_tokens)
        return torch.where(self._written(call, step_tokens)[:, :, None, None], out, 0.0)

    def _source_mask(self, call: Attend, layer: CacheLayer) -> Tensor:
        step = call.step
        return step.once(("cross", layer.slots), lambda: length_mask(step.enc_lengths, layer.slots))

    def shared_attention(self, call: Attend, query: Tensor) -> Tensor:
        return self._attend_ring(call, query, self._caches(call.cache, query.shape[0]))

    def _attend_ring(self, call: Attend, query: Tensor, caches: Caches) -> Tensor:
        layer, step, step_tokens = call.cache, call.step, query.shape[2]
        mask = self._ring_mask(call, step_tokens)
        live = step.once(("live", layer.slots), lambda: self._self_live(call))
        out = self._attend(call, query, caches, mask, live)
        return torch.where(self._written(call, step_tokens)[:, :, None, None], out, 0.0)

    def _ring_mask(self, call: Attend, step_tokens: int) -> Tensor:
        mask_key = ("mask", call.cache.slots, call.window, id(call.bias))
        return call.step.once(mask_key, lambda: self._self_mask(call, step_tokens))

    def _written(self, call: Attend, step_tokens: int) -> Tensor:
        return call.step.once("written", lambda: torch.arange(step_tokens) < call.step.step_lengths[:, None])

    def cross_attention(self, call: Attend, query: Tensor) -> Tensor:
        layer, step, lengths_b = call.cache, call.step, call.step.enc_lengths
        caches = self._caches(layer, query.shape[0])
        mask = self._source_mask(call, layer)
        widest = step.once("widest", lambda: step.step_lengths.amax(0))
        live = step.once(("cross live", layer.slots), lambda: live_slots(lengths_b, layer.slots, widest))
        out = self._attend(call, query, caches, mask, live)
        return torch.where((lengths_b > 0)[:, None, None, None], out, 0.0)

    def encoder_attention(self, call: Attend, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        step, places = call.step, query.shape[2]
        mask = step.once(("encoder", id(call.bias)), lambda: self._encoder_mask(call, places))
        out = self._attend(call, query, (for_every_head(key, query), for_every_head(value, query)), mask)
        inside_bE = step.once("inside", lambda: torch.arange(places) < step.enc_lengths[:, None])
        return torch.where(inside_bE[:, :, None, None], out, 0.0)

    def write_cross(self, call: Attend, key: Tensor, value: Tensor) -> Tensor:
        step, (rows, _, places, _) = call.step, key.shape
        slots_bE = step.once("cross slots", lambda: torch.arange(places)[None].expand(rows, places))
        written_bE = step.once("written", lambda: torch.arange(places) < step.enc_lengths[:, None])
        self._write(call.cache, (key, value), slots_bE, written_bE)
        return step.enc_lengths.clone()

    def _attend(
        self, call: Attend, query_bHTD: Tensor, states: Caches, mask: Tensor, live: Live | None = None
    ) -> Tensor:
        """Attention -> `[b, T, H, Dv]` in the type of the states; mask float32 `[b or 1, H or 1, T or 1, S]`."""
        (heads, step_tokens), kv_heads = query_bHTD.shape[1:3], states[0].shape[1]
        query, (mask,) = fold_groups(as_stored(query_bHTD * call.scale, states[0].dtype), (mask,), kv_heads)
        if live is None:
            out = attend(query, *states, mask, call.softcap)
        else:
            out = self.ops.attend_live(query, *states, mask, live.slots, live.are_few, call.softcap, call.sinks)
        return unfold_groups(out, heads, step_tokens)

    def _caches(self, layer: CacheLayer, rows: int) -> Caches:
        if self._given is not None:
            return self._given[layer]
        return layer.key_cache[:rows], layer.value_cache[:rows]

    def _write(self, layer: CacheLayer, states: Caches, slots_bT: Tensor, written_bT: Tensor) -> Caches:
        """Write a step of keys and values; returns the caches that hold it."""
        past = self._caches(layer, slots_bT.shape[0])
        keys, values = (
            self._scattered(cache, state, slots_bT, written_bT) for cache, state in zip(past, states, strict=True)
        )
        if self._given is not None:
            self._given[layer] = (keys, values)
        else:
            past[0].copy_(keys)
            past[1].copy_(values)
        return keys, values

    def _scattered(self, cache: Tensor, state_bKTD: Tensor, slots_bT: Tensor, written_bT: Tensor) -> Tensor:
        held = self.ops.read_slots(cache, slots_bT)
        update = torch.where(written_bT[:, None, :, None], as_stored(state_bKTD, cache.dtype), held)
        return self.ops.scatter_slots(cache, update, slots_bT[:, 0])

    def _ring_slots(self, call: Attend, step_tokens: int) -> Tensor:
        positions_bT = call.step.positions[:, None] + torch.arange(step_tokens)
        return torch.remainder(positions_bT, call.cache.slots)

    def _self_live(self, call: Attend) -> Live:
        step = call.step
        widest = step.once("widest", lambda: step.step_lengths.amax(0))
        return live_slots(step.positions + step.step_lengths, call.cache.slots, widest)

    def _self_mask(self, call: Attend, step_tokens: int) -> Tensor:
        layer, step = call.cache, call.step
        last_b1 = (step.positions + step.step_lengths)[:, None] - 1
        held_bS = last_b1 - torch.remainder(last_b1 - torch.arange(layer.slots), layer.slots)
        queries_bT = step.positions[:, None] + torch.arange(step_tokens)
        distances = queries_bT[:, :, None] - held_bS[:, None, :]
        visible = torch.logical_and((held_bS >= 0)[:, None, :], distances >= 0)
        if call.window is not None:
            visible = torch.logical_and(visible, distances < call.window)
        mask = torch.where(visible, 0.0, MASKED_SCORE)[:, None]
        return mask if call.bias is None else mask + bias_from_table(call.bias, distances)

    def _encoder_mask(self, call: Attend, places: int) -> Tensor:
        mask = length_mask(call.step.enc_lengths, places)
        if call.bias is None:
            return mask
        places_E = torch.arange(places)
        return mask + bias_from_table(call.bias, (places_E[:, None] - places_E[None, :])[None])


def fold_groups(
    query_bHTD: Tensor, masks: tuple[Tensor, ...], kv_heads: int
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Queries `[b, K, G * T, D]`, and masks as they are added to their scores: with groups of five dimensions.

    Sizes change a pair at a time: one reshape over a dynamic T leaves a guard on its strides in the trace.
    """
    heads, step_tokens = query_bHTD.shape[1:3]
    if heads == kv_heads:
        return query_bHTD, masks
    query = query_bHTD.contiguous().unflatten(1, (kv_heads, -1)).flatten(2, 3)
    wide = (mask.expand(-1, -1, step_tokens, -1) for mask in masks)
    return query, tuple(
        mask[:, :, None] if mask.shape[1] == 1 else mask.unflatten(1, (kv_heads, -1)) for mask in wide
    )


def unfold_groups(out_bKMD: Tensor, heads: int, step_tokens: int) -> Tensor:
    """`[b, K, G * T, Dv]` -> `[b, T, H, Dv]`."""
    if out_bKMD.shape[1] != heads:
        out_bKMD = out_bKMD.unflatten(2, (-1, step_tokens)).flatten(1, 2)
    return out_bKMD.transpose(1, 2).contiguous()


@dataclass(frozen=True)
class Live:
    """How many slots of a cache may be visible in this step, int64 `[1]`, and whether they are few, bool scalar."""

    slots: Tensor
    are_few: Tensor


def live_slots(ends_b: Tensor, slots: int, widest: Tensor) -> Live:
    """The slots in use when row i ends at `ends[i]`; `widest` is the most tokens of a row in this step.

    Reading the live slots alone copies them first, which pays up to a quarter of a cache for one token and up to half
    of it for several.
    """
    live = ends_b.amax(0).clamp(1, slots)
    return Live(live[None], live * torch.where(widest > 1, 2, 4) <= slots)


def length_mask(lengths_b: Tensor, places: int) -> Tensor:
    """Float mask `[b, 1, 1, places]`: the first `lengths[i]` are visible."""
    return torch.where(torch.arange(places) < lengths_b[:, None], 0.0, MASKED_SCORE)[:, None, None, :]


def bias_from_table(bias: BiasTable, distances_bTS: Tensor) -> Tensor:
    """Relative bias `[b, H, T, S]`."""
    table_HN = bias.table_HN
    index = (distances_bTS + bias.origin).clamp(0, table_HN.shape[1] - 1)
    return torch.nn.functional.embedding(index, table_HN.transpose(0, 1).contiguous()).permute(0, 3, 1, 2)
