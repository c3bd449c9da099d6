"""The cache operator in core operators: the spelling of `--attention portable`.

It runs on any ExecuTorch runtime, without our kernel. Caches are flat, `[B * K * S, D]`, so that a step is written
by `index_put_` with **one** index tensor, the only form that ExecuTorch's reinplace pass turns into an in-place
write. Attention covers all B cache rows (queries of rows that are not live repeat the last live row and are
dropped), because narrowing a cache to the live rows would copy it. Cost grows with the capacity, not with what is
live: that is what the C++ kernel is for.

Shape legend: as in `cached_attention.py`; b live rows, B cache rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .attention_binding import Attend
from .cache_layer import CacheLayer

MASKED_SCORE = -1e9  # finite: -inf in a row that sees nothing becomes NaN


@dataclass(frozen=True)
class FlatWrite:
    """Where a step goes in a flat cache; made once per step for all layers of one geometry.

    index int64 `[b * K * T]`: flat rows. written bool `[b * K * T, 1]`: false for padding, which writes back what
    was there.
    """

    index: Tensor
    written: Tensor

    def __call__(self, cache: Tensor, step_bKTD: Tensor) -> None:
        update = torch.where(self.written, step_bKTD.contiguous().flatten(0, 2), cache.index_select(0, self.index))
        cache.index_put_((self.index,), update)


def flat_write(slots_bT: Tensor, written_bT: Tensor, kv_heads: int, slots: int) -> FlatWrite:
    """The write of tokens to `slots_bT` of each of `kv_heads` heads of a cache with `slots` slots."""
    batch, step_tokens = slots_bT.shape
    rows_bK = torch.arange(batch)[:, None] * kv_heads + torch.arange(kv_heads)
    index = (rows_bK[:, :, None] * slots + slots_bT[:, None, :]).flatten()
    written = written_bT[:, None, :, None].expand(batch, kv_heads, step_tokens, 1).flatten(0, 2)
    return FlatWrite(index, written)


def attend(
    query_BHTD: Tensor,
    states: tuple[Tensor, Tensor],
    bias: Tensor,
    softcap: float | None,
    kv_heads: int,
    sinks_H: Tensor | None = None,
) -> Tensor:
    """Attention of scaled queries over keys/values `[B * K, S, D]` -> `[B, T, H, D]`.

    bias is a float mask with any relative bias: `[B or 1, H or 1, T, S]` without groups (K = H), else as
    `fold_groups` leaves it, `[B * K, G * T, S]`. Scores are computed as keys x query, so that a cache is read in its
    own layout and never transposed.
    """
    (heads, step_tokens), (keys, values) = query_BHTD.shape[1:3], states
    scores = masked_scores(query_BHTD, keys, bias, softcap, kv_heads)
    weights = softmax(scores, sinks_H, query_BHTD, kv_heads)
    weights = weights.flatten(0, 1) if heads == kv_heads else weights
    return unfold_groups(torch.bmm(weights, values), kv_heads, heads, step_tokens).transpose(1, 2).contiguous()


def masked_scores(
    query_BHTD: Tensor, keys_NSD: Tensor, bias: Tensor, softcap: float | None, kv_heads: int
) -> Tensor:
    """Scores `[B, H, T, S]`, or with groups `[B * K, G * T, S]`, as the softmax takes them; `bias` as in `attend`."""
    heads, folded_query = query_BHTD.shape[1], fold_groups(query_BHTD.contiguous(), kv_heads)
    scores = torch.bmm(keys_NSD, folded_query.transpose(1, 2).contiguous()).transpose(1, 2).contiguous()
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    return (scores.unflatten(0, (-1, heads)) if heads == kv_heads else scores) + bias


def softmax(scores: Tensor, sinks_H: Tensor | None, query_BHTD: Tensor, kv_heads: int) -> Tensor:
    """Weights of masked scores `[B, H, T, S]`, or with groups `[B * K, G * T, S]`; sinks are one score more."""
    if sinks_H is None:
        return torch.softmax(scores, dim=-1)
    rows, heads, step_tokens, _ = query_BHTD.shape
    sinks = sinks_H[None, :, None, None].expand(rows, heads, step_tokens, 1).contiguous()
    sinks = sinks if heads == kv_heads else fold_groups(sinks, kv_heads)
    return torch.softmax(torch.cat((scores, sinks), dim=-1), dim=-1)[..., : scores.shape[-1]].contiguous()


def for_every_head(states_BKED: Tensor, query_BHED: Tensor) -> Tensor:
    """Keys or values `[B, H, E, D]` of an encoder, whose scores are larger than they are.

    Folding its queries into groups would fold a mask of E x E too, and leave a guard on E in the trace.
    """
    heads, kv_heads = query_BHED.shape[1], states_BKED.shape[1]
    if heads == kv_heads:
        return states_BKED
    return states_BKED.index_select(1, torch.arange(heads) // (heads // kv_heads))


def fold_groups(tensor_BHTX: Tensor, kv_heads: int) -> Tensor:
    """`[B, K * G, T, X]` -> `[B * K, G * T, X]`.

    Flattened a pair at a time: one reshape over a dynamic T leaves a guard on its strides in the trace.
    """
    if tensor_BHTX.shape[1] == kv_heads:
        return tensor_BHTX.flatten(0, 1)
    return tensor_BHTX.unflatten(1, (kv_heads, -1)).flatten(2, 3).flatten(0, 1)


def unfold_groups(tensor: Tensor, kv_heads: int, heads: int, step_tokens: int) -> Tensor:
    """`[B * K, G * T, X]` -> `[B, K * G, T, X]`."""
    if heads == kv_heads:
        return tensor.unflatten(0, (-1, kv_heads))
    return tensor.unflatten(1, (-1, step_tokens)).unflatten(0, (-1, kv_heads)).flatten(1, 2)


def fold_mask(mask: Tensor, kv_heads: int, query_BHTD: Tensor) -> Tensor:
    """A mask `[B, H or 1, T or 1, S]` in the form that `attend` adds for these queries.

    Made once for all layers of a step: with groups it is as large as the scores.
    """
    heads, step_tokens = query_BHTD.shape[1:3]
    if heads == kv_heads:
        return mask
    return fold_groups(mask.expand(-1, heads, step_tokens, -1).contiguous(), kv_heads)


def attend_cache(query_bHTD: Tensor, layer: CacheLayer, bias: Tensor, call: Attend) -> Tensor:
    """`attend` for live rows over the whole of a flat cache -> `[b, T, H, D]`."""
    query_BHTD = repeat_last_row(query_bHTD * call.scale, layer.rows)
    out = attend(query_BHTD, layer.views_NSD(), bias, call.softcap, layer.kv_heads, call.sinks)
    return out[: query_bHTD.shape[0]]


def attend_caches(
    query_bHTD: Tensor, layers: tuple[CacheLayer, CacheLayer], biases: tuple[Tensor, Tensor], call: Attend
) -> Tensor:
    """`attend_cache` over two caches under one softmax; `biases` are the masks of each."""
    (heads, step_tokens), kv_heads, slots = query_bHTD.shape[1:3], layers[0].kv_heads, layers[0].slots
    query_BHTD = repeat_last_row(query_bHTD * call.scale, layers[0].rows)
    states = [layer.views_NSD() for layer in layers]
    scores = [
        masked_scores(query_BHTD, keys, bias, call.softcap, kv_heads)
        for (keys, _), bias in zip(states, biases, strict=True)
    ]
    weights = torch.softmax(torch.cat(scores, dim=-1), dim=-1)
    weights = weights.flatten(0, 1) if heads == kv_heads else weights
    parts = (weights[..., :slots].contiguous(), weights[..., slots:].contiguous())
    out = torch.bmm(parts[0], states[0][1]) + torch.bmm(parts[1], states[1][1])
    return unfold_groups(out, kv_heads, heads, step_tokens).transpose(1, 2).contiguous()[: query_bHTD.shape[0]]


def repeat_last_row(tensor: Tensor, rows: int) -> Tensor:
    """`[b, ...]` -> `[rows, ...]`: rows past b repeat row b - 1 (their results are dropped)."""
    if rows == 1:
        return tensor
    return tensor.index_select(0, torch.arange(rows).clamp(max=tensor.shape[0] - 1))


def self_mask(
    positions_b: Tensor, step_lengths_b: Tensor, step_tokens: int, rows: int, slots: int, window: int | None
) -> tuple[Tensor, Tensor]:
    """Float mask `[B, 1, T, S]` and query-minus-key distances int64 `[B, T, S]`, from positions alone."""
    positions_B = repeat_last_row(positions_b, rows)
    last_B1 = positions_B[:, None] + repeat_last_row(step_lengths_b, rows)[:, None] - 1
    since_BS = last_B1 - torch.arange(slots) + slots  # >= 0: ExecuTorch's remainder truncates toward zero
    held_BS = last_B1 - torch.remainder(since_BS, slots)
    queries_BT = positions_B[:, None] + torch.arange(step_tokens)
    distances = queries_BT[:, :, None] - held_BS[:, None, :]
    visible = torch.logical_and((held_BS >= 0)[:, None, :], distances >= 0)
    if window is not None:
        visible = torch.logical_and(visible, distances < window)
    return torch.where(visible, 0.0, MASKED_SCORE)[:, None], distances


def length_mask(lengths_b: Tensor, rows: int, slots: int) -> Tensor:
    """Float mask `[B, 1, 1, S]`: the first `lengths[i]` slots are visible."""
    visible = torch.arange(slots) < repeat_last_row(lengths_b, rows)[:, None]
    return torch.where(visible, 0.0, MASKED_SCORE)[:, None, None, :]


def bias_from_table(table_HN: Tensor, distances_BTS: Tensor, origin: int) -> Tensor:
    """Relative bias `[B, H, T, S]`, heads first.

    An embedding lookup, because a flat lookup reshaped back to `[B, T, S, H]` is planned for the wrong upper bound
    when T and S are dynamic (2 GB for 512 x 512).
    """
    index = (distances_BTS + origin).clamp(0, table_HN.shape[1] - 1)
    by_distance_NH = table_HN.transpose(0, 1).contiguous()
    return torch.nn.functional.embedding(index, by_distance_NH).permute(0, 3, 1, 2).contiguous()
