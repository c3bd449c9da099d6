"""The cache operator: schema, eager reference and registration with PyTorch.

*Write this step's keys and values at their slots, then attend over the positions that are visible.*
Every attention of every exported model is one of the functions of this file; the C++ kernel and the core-operator form
(`core_form.py`) are other spellings of the same arithmetic and are tested against it.

Shape legend: B cache rows (capacity), b live rows, T step tokens, S slots, E encoder positions, H query heads,
K key/value heads, G = H / K, D head size, N entries of a bias table.
"""

from __future__ import annotations

from functools import cache, partial

import torch
from torch import Tensor

from exporter.cache.plain_attention import attend, bias_from_table, visible_in_ring
from exporter.cache.stored_states import as_floats, as_stored, head_size
from exporter.operator_library import NAMESPACE, Operator, define

Pair = tuple[Tensor, Tensor]


def _check_step(query: Tensor, key_cache: Tensor, positions: Tensor, step_lengths: Tensor) -> None:
    step_tokens, slots = query.shape[2], key_cache.shape[2]
    if query.shape[0] > key_cache.shape[0]:
        raise ValueError(f"{query.shape[0]} rows were given and the cache holds {key_cache.shape[0]}")
    if step_tokens > slots:
        raise ValueError(f"a step of {step_tokens} tokens was given and the cache has {slots} slots")
    if query.shape[1] % key_cache.shape[1]:
        raise ValueError(f"{query.shape[1]} query heads do not fit {key_cache.shape[1]} key/value heads")
    if bool((positions < 0).any()) or bool((step_lengths < 0).any()) or bool((step_lengths > step_tokens).any()):
        raise ValueError("positions must be >= 0 and step lengths within 0..step tokens")


def cached_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    positions: Tensor,
    step_lengths: Tensor,
    bias_table: Tensor | None,
    bias_origin: int,
    window: int | None,
    scale: float,
    softcap: float | None,
    sinks: Tensor | None = None,
) -> Tensor:
    """Write a step into the ring and attend over it (eager reference; mutates the caches).

    query `[b, H, T, D]`, key/value `[b, K, T, D]`, caches `[B, K, S, D]`, positions/step_lengths int64 `[b]`.
    Row i writes tokens `t < step_lengths[i]` at slot `(positions[i] + t) mod S` and its query at position q sees
    positions p with `0 <= p <= q` and `q - p < window`. sinks is `[H]`. Caches may be float16 or int8
    (`stored_states.py`); arithmetic is in fp32. Raises ValueError when the step does not fit.
    """
    _check_step(query, key_cache, positions, step_lengths)
    _write_step((key, value), (key_cache, value_cache), positions, step_lengths)
    caches, steps = (key_cache, value_cache), (positions, step_lengths)
    return shared_attention(query, *caches, *steps, bias_table, bias_origin, window, scale, softcap, sinks)


def _write_step(states: Pair, caches: Pair, positions: Tensor, step_lengths: Tensor) -> None:
    (key, value), (key_cache, value_cache) = states, caches
    if key.shape[1] != key_cache.shape[1]:
        raise ValueError(f"{key.shape[1]} key heads do not fit a cache of {key_cache.shape[1]}")
    slots, steps_T = key_cache.shape[2], torch.arange(key.shape[2], device=key.device)
    for row, count in enumerate(step_lengths.tolist()):
        slot_index = (positions[row] + steps_T[:count]) % slots
        key_cache[row, :, slot_index] = as_stored(key[row, :, :count], key_cache.dtype)
        value_cache[row, :, slot_index] = as_stored(value[row, :, :count], value_cache.dtype)


def shared_attention(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    positions: Tensor,
    step_lengths: Tensor,
    bias_table: Tensor | None,
    bias_origin: int,
    window: int | None,
    scale: float,
    softcap: float | None,
    sinks: Tensor | None = None,
) -> Tensor:
    """Attend as `cached_attention` does after its write, over a ring that another layer has written."""
    _check_step(query, key_cache, positions, step_lengths)
    batch, step_tokens, slots = query.shape[0], query.shape[2], key_cache.shape[2]
    visible_BTS, distances_BTS = visible_in_ring(positions, step_lengths, step_tokens, slots, window)
    bias = None if bias_table is None else bias_from_table(bias_table, distances_BTS, bias_origin)
    keys, values = as_floats(key_cache[:batch]), as_floats(value_cache[:batch])
    return attend(query, keys, values, visible_BTS, scale, softcap, bias, sinks)


def merged_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    cross_key_cache: Tensor,
    cross_value_cache: Tensor,
    positions: Tensor,
    step_lengths: Tensor,
    cross_lengths: Tensor,
    window: int | None,
    scale: float,
    softcap: float | None,
) -> Tensor:
    """Write a step as `cached_attention` does, and attend over the ring and an encoder's keys under one softmax.

    cross caches `[B, K, E, D]` of the same type; every query of row i sees their first `cross_lengths[i]` slots too.
    """
    _check_step(query, key_cache, positions, step_lengths)
    if cross_key_cache.shape[1] != key_cache.shape[1]:
        raise ValueError(f"{cross_key_cache.shape[1]} cross heads do not fit a cache of {key_cache.shape[1]}")
    _write_step((key, value), (key_cache, value_cache), positions, step_lengths)
    batch, step_tokens, slots = query.shape[0], query.shape[2], key_cache.shape[2]
    in_ring_BTS, _ = visible_in_ring(positions, step_lengths, step_tokens, slots, window)
    is_live_BT1 = (torch.arange(step_tokens, device=query.device) < step_lengths[:, None])[:, :, None]
    in_source_BE = torch.arange(cross_key_cache.shape[2], device=query.device) < cross_lengths[:, None]
    visible = torch.cat((in_ring_BTS, in_source_BE[:, None] & is_live_BT1), dim=2)
    keys, values = (
        torch.cat((as_floats(ring[:batch]), as_floats(cross[:batch])), dim=2)
        for ring, cross in ((key_cache, cross_key_cache), (value_cache, cross_value_cache))
    )
    return attend(query, keys, values, visible, scale, softcap)


def cross_attention(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    lengths: Tensor,
    scale: float,
    softcap: float | None,
) -> Tensor:
    """Attend over the first `lengths[i]` slots of each row; a row of length 0 yields 0."""
    batch, slots = query.shape[0], key_cache.shape[2]
    visible_BS = torch.arange(slots, device=query.device) < lengths[:, None]
    visible_BTS = visible_BS[:, None, :].expand(batch, query.shape[2], slots)
    keys, values = as_floats(key_cache[:batch]), as_floats(value_cache[:batch])
    return attend(query, keys, values, visible_BTS, scale, softcap)


def encoder_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    lengths: Tensor,
    bias_table: Tensor | None,
    bias_origin: int,
    scale: float,
    softcap: float | None,
) -> Tensor:
    """Bidirectional attention within the first `lengths[i]` positions; padding queries yield 0."""
    places_E = torch.arange(query.shape[2], device=query.device)
    inside_BE = places_E < lengths[:, None]
    visible_BTS = inside_BE[:, :, None] & inside_BE[:, None, :]
    bias = None
    if bias_table is not None:
        distances_1TS = (places_E[:, None] - places_E[None, :])[None]
        bias = bias_from_table(bias_table, distances_1TS, bias_origin)
    return attend(query, key, value, visible_BTS, scale, softcap, bias)


def write_cross(key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, lengths: Tensor) -> Tensor:
    """Write encoder keys/values `[b, K, E, D]` of the live positions to slots `0..lengths[i]-1`; returns lengths."""
    if key.shape[0] > key_cache.shape[0] or key.shape[2] > key_cache.shape[2]:
        raise ValueError(
            f"{key.shape[0]} rows of {key.shape[2]} positions were given and the cross cache holds "
            f"{key_cache.shape[0]} rows of {key_cache.shape[2]}"
        )
    for row, count in enumerate(lengths.tolist()):
        key_cache[row, :, :count] = as_stored(key[row, :, :count], key_cache.dtype)
        value_cache[row, :, :count] = as_stored(value[row, :, :count], value_cache.dtype)
    return lengths.clone()


def _meta_btHd(query: Tensor, value: Tensor) -> Tensor:
    batch, heads, step_tokens = query.shape[:3]
    return query.new_empty((batch, step_tokens, heads, head_size(value)))


_OPERATORS = {
    "cached_attention": Operator(
        "Tensor query, Tensor key, Tensor value, Tensor(a!) key_cache, Tensor(b!) value_cache, Tensor positions, "
        "Tensor step_lengths, Tensor? bias_table, int bias_origin, int? window, float scale, float? softcap, "
        "Tensor? sinks=None",
        cached_attention,
        lambda query, key, value, *rest: _meta_btHd(query, value),
    ),
    "shared_attention": Operator(
        "Tensor query, Tensor key_cache, Tensor value_cache, Tensor positions, Tensor step_lengths, "
        "Tensor? bias_table, int bias_origin, int? window, float scale, float? softcap",
        shared_attention,
        lambda query, key_cache, value_cache, *rest: _meta_btHd(query, value_cache),
    ),
    "merged_attention": Operator(
        "Tensor query, Tensor key, Tensor value, Tensor(a!) key_cache, Tensor(b!) value_cache, "
        "Tensor cross_key_cache, Tensor cross_value_cache, Tensor positions, Tensor step_lengths, "
        "Tensor cross_lengths, int? window, float scale, float? softcap",
        merged_attention,
        lambda query, key, value, *rest: _meta_btHd(query, value),
    ),
    "cross_attention": Operator(
        "Tensor query, Tensor key_cache, Tensor value_cache, Tensor lengths, float scale, float? softcap",
        cross_attention,
        lambda query, key_cache, value_cache, *rest: _meta_btHd(query, value_cache),
    ),
    "encoder_attention": Operator(
        "Tensor query, Tensor key, Tensor value, Tensor lengths, Tensor? bias_table, int bias_origin, float scale, "
        "float? softcap",
        encoder_attention,
        lambda query, key, value, *rest: _meta_btHd(query, value),
    ),
    "write_cross": Operator(
        "Tensor key, Tensor value, Tensor(a!) key_cache, Tensor(b!) value_cache, Tensor lengths",
        write_cross,
        lambda key, value, key_cache, value_cache, lengths: lengths.new_empty(lengths.shape),
    ),
}
_library = cache(partial(define, _OPERATORS))  # one definition per process, kept alive


def operators():
    """`torch.ops.fixed_capacity`, defined on first use."""
    _library()
    return getattr(torch.ops, NAMESPACE)
