"""The cache operator in ONNX's operators: the spelling of `--backend onnx`.

Caches are inputs and outputs of the traced graph, `[b, K, S, D]`, where b is the batch of the call. A step is written
by `TensorScatter`, whose result is the cache that attention reads and the graph returns. Padding writes back what its
slot held; that value is read from the graph's input and the scatter depends on it, so it is read before a write in
place. Nothing else reads the input. Outside of a trace the layers' own buffers are the caches, and the same arithmetic
runs in eager PyTorch.

Shape legend: as in `cached_attention.py`; n slots that may be visible in this step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from .attention_binding import Attend, BiasTable
from .cache_layer import CacheLayer
from .onnx_operators import onnx_operators

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
        layer, step, step_tokens = call.cache, call.step, query.shape[2]
        written_bT = step.once("written", lambda: torch.arange(step_tokens) < step.step_lengths[:, None])
        slots_bT = step.once(("slots", layer.slots), lambda: self._ring_slots(call, step_tokens))
        keys, values = self._write(layer, (key, value), slots_bT, written_bT)
        mask_key = ("mask", layer.slots, layer.window, id(call.bias))
        mask = step.once(mask_key, lambda: self._self_mask(call, step_tokens))
        out = attend(query * call.scale, keys, values, mask, call.softcap)
        return torch.where(written_bT[:, :, None, None], out, 0.0)

    def cross_attention(self, call: Attend, query: Tensor) -> Tensor:
        layer, lengths_b = call.cache, call.step.enc_lengths
        keys, values = self._caches(layer, query.shape[0])
        mask = call.step.once(("cross", layer.slots), lambda: length_mask(lengths_b, layer.slots))
        out = attend(query * call.scale, keys, values, mask, call.softcap)
        return torch.where((lengths_b > 0)[:, None, None, None], out, 0.0)

    def encoder_attention(self, call: Attend, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        step, places = call.step, query.shape[2]
        mask = step.once(("encoder", id(call.bias)), lambda: self._encoder_mask(call, places))
        out = attend(query * call.scale, key, value, mask, call.softcap)
        inside_bE = step.once("inside", lambda: torch.arange(places) < step.enc_lengths[:, None])
        return torch.where(inside_bE[:, :, None, None], out, 0.0)

    def write_cross(self, call: Attend, key: Tensor, value: Tensor) -> Tensor:
        step, (rows, _, places, _) = call.step, key.shape
        slots_bE = step.once("cross slots", lambda: torch.arange(places)[None].expand(rows, places))
        written_bE = step.once("written", lambda: torch.arange(places) < step.enc_lengths[:, None])
        self._write(call.cache, (key, value), slots_bE, written_bE)
        return step.enc_lengths.clone()

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
        update = torch.where(written_bT[:, None, :, None], state_bKTD, held)
        return self.ops.scatter_slots(cache, update, slots_bT[:, 0])

    def _ring_slots(self, call: Attend, step_tokens: int) -> Tensor:
        positions_bT = call.step.positions[:, None] + torch.arange(step_tokens)
        return torch.remainder(positions_bT, call.cache.slots)

    def _self_mask(self, call: Attend, step_tokens: int) -> Tensor:
        layer, step = call.cache, call.step
        last_b1 = (step.positions + step.step_lengths)[:, None] - 1
        held_bS = last_b1 - torch.remainder(last_b1 - torch.arange(layer.slots), layer.slots)
        queries_bT = step.positions[:, None] + torch.arange(step_tokens)
        distances = queries_bT[:, :, None] - held_bS[:, None, :]
        visible = torch.logical_and((held_bS >= 0)[:, None, :], distances >= 0)
        if layer.window is not None:
            visible = torch.logical_and(visible, distances < layer.window)
        mask = torch.where(visible, 0.0, MASKED_SCORE)[:, None]
        return mask if call.bias is None else mask + bias_from_table(call.bias, distances)

    def _encoder_mask(self, call: Attend, places: int) -> Tensor:
        mask = length_mask(call.step.enc_lengths, places)
        if call.bias is None:
            return mask
        places_E = torch.arange(places)
        return mask + bias_from_table(call.bias, (places_E[:, None] - places_E[None, :])[None])


def attend(query_bHTD: Tensor, keys_bKSD: Tensor, values_bKSD: Tensor, mask: Tensor, softcap: float | None) -> Tensor:
    """Attention of scaled queries -> `[b, T, H, Dv]`; mask float `[b or 1, H or 1, T or 1, S]`.

    The queries of a group are rows of one product with their head's keys, so that a cache is read where it lies.
    Sizes change a pair at a time: one reshape over a dynamic T leaves a guard on its strides in the trace.
    """
    (heads, step_tokens), kv_heads = query_bHTD.shape[1:3], keys_bKSD.shape[1]
    grouped = heads != kv_heads
    if grouped:
        query_bHTD = query_bHTD.contiguous().unflatten(1, (kv_heads, -1)).flatten(2, 3)
        mask = mask[:, :, None] if mask.shape[1] == 1 else mask.unflatten(1, (kv_heads, -1))
    scores = query_bHTD @ keys_bKSD.transpose(-1, -2)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if not grouped:
        return (torch.softmax(scores + mask, dim=-1) @ values_bKSD).transpose(1, 2).contiguous()
    weights = torch.softmax(scores.unflatten(2, (-1, step_tokens)) + mask, dim=-1).flatten(2, 3)
    out = (weights @ values_bKSD).unflatten(2, (-1, step_tokens)).flatten(1, 2)
    return out.transpose(1, 2).contiguous()


def length_mask(lengths_b: Tensor, places: int) -> Tensor:
    """Float mask `[b, 1, 1, places]`: the first `lengths[i]` are visible."""
    return torch.where(torch.arange(places) < lengths_b[:, None], 0.0, MASKED_SCORE)[:, None, None, :]


def bias_from_table(bias: BiasTable, distances_bTS: Tensor) -> Tensor:
    """Relative bias `[b, H, T, S]`."""
    table_HN = bias.table_HN
    index = (distances_bTS + bias.origin).clamp(0, table_HN.shape[1] - 1)
    return torch.nn.functional.embedding(index, table_HN.transpose(0, 1).contiguous()).permute(0, 3, 1, 2)
