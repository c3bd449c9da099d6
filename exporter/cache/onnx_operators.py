"""Steps of a cache's attention that core operators have no form for and ONNX has, as operators of PyTorch.

Reading slots, scattering into slots, and attention that reads the live part of a cache alone when that is small. They
are functional: `scatter_slots` returns the cache that it changed. ONNX Runtime writes in place where the same memory is
bound to the program's input and output.

Shape legend: b rows, T step tokens, S slots, K key/value heads, G query heads of each, M = G * T, D key size, Dv value
size.
"""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace

import torch
from torch import Tensor

from exporter.operator_library import NAMESPACE, Operator, define

Pair = tuple[Tensor, Tensor]


def read_slots(cache_bKSD: Tensor, slots_bT: Tensor) -> Tensor:
    """What the slots of each row hold, `[b, K, T, D]`."""
    kv_heads, size = cache_bKSD.shape[1], cache_bKSD.shape[3]
    index = slots_bT[:, None, :, None].expand(-1, kv_heads, -1, size)
    return torch.gather(cache_bKSD, 2, index)


def scatter_slots(cache_bKSD: Tensor, update_bKTD: Tensor, first_b: Tensor) -> Tensor:
    """The cache with token t of row i at slot `(first[i] + t) mod S`: a copy."""
    slots, step_tokens = cache_bKSD.shape[2], update_bKTD.shape[2]
    slots_bT = (first_b[:, None] + torch.arange(step_tokens)) % slots
    index = slots_bT[:, None, :, None].expand(-1, cache_bKSD.shape[1], -1, cache_bKSD.shape[3])
    return torch.scatter(cache_bKSD, 2, index, update_bKTD)


def attend(
    query_bKMD: Tensor,
    keys_bKSD: Tensor,
    values_bKSD: Tensor,
    mask: Tensor,
    softcap: float | None,
    sinks_H: Tensor | None = None,
) -> Tensor:
    """Attention of scaled queries -> `[b, K, M, Dv]`.

    mask is float `[b or 1, K or 1, T or 1, S]`, or with groups `[b or 1, K or 1, G or 1, T, S]`. The queries of a group
    are rows of one product with their head's keys, so that a cache is read where it lies. Products have the type of the
    states; scores and their softmax are float32.
    """
    weights = softmax(masked_scores(query_bKMD, keys_bKSD, mask, softcap), sinks_H).to(values_bKSD.dtype)
    return (weights if mask.dim() == 4 else weights.flatten(2, 3)) @ values_bKSD


def attend_two(query_bKMD: Tensor, caches: tuple[Pair, Pair], masks: Pair, softcap: float | None) -> Tensor:
    """`attend` over two caches, each with its mask, under one softmax."""
    scores = [masked_scores(query_bKMD, keys, mask, softcap) for (keys, _), mask in zip(caches, masks, strict=True)]
    weights = torch.softmax(torch.cat(scores, dim=-1), dim=-1).to(query_bKMD.dtype)
    weights = weights if masks[0].dim() == 4 else weights.flatten(2, 3)
    (keys, values), (_, other_values) = caches
    slots = keys.shape[2]  # copied parts: a product of views leaves a guard on a dynamic T in the trace
    return weights[..., :slots].contiguous() @ values + weights[..., slots:].contiguous() @ other_values


def masked_scores(query_bKMD: Tensor, keys_bKSD: Tensor, mask: Tensor, softcap: float | None) -> Tensor:
    """Scores in float32 as the softmax takes them, `[b, K, M, S]` or, with a grouped mask, `[b, K, G, T, S]`."""
    scores = (query_bKMD @ keys_bKSD.transpose(-1, -2)).float()
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    return (scores if mask.dim() == 4 else scores.unflatten(2, (-1, mask.shape[3]))) + mask


def softmax(scores: Tensor, sinks_H: Tensor | None) -> Tensor:
    """Weights of masked scores `[b, K, T, S]` or, with groups, `[b, K, G, T, S]`; sinks are one score more."""
    if sinks_H is None:
        return torch.softmax(scores, dim=-1)
    sinks = sinks_H.view(*scores.shape[1:-2], 1, 1).expand(*scores.shape[:-1], 1)
    return torch.softmax(torch.cat((scores, sinks), dim=-1), dim=-1)[..., :-1]


def attend_live(
    query_bKMD: Tensor,
    keys_bKSD: Tensor,
    values_bKSD: Tensor,
    mask: Tensor,
    live_1: Tensor,
    few: Tensor,
    softcap: float | None,
    sinks_H: Tensor | None,
) -> Tensor:
    """`attend`, of which `live` says how many slots may be visible, and `few` whether to read those alone."""
    count = int(live_1) if few else keys_bKSD.shape[2]
    return attend(query_bKMD, keys_bKSD[:, :, :count], values_bKSD[:, :, :count], mask[..., :count], softcap, sinks_H)


def _read_meta(cache_bKSD: Tensor, slots_bT: Tensor) -> Tensor:
    rows, kv_heads, _, size = cache_bKSD.shape
    return cache_bKSD.new_empty(rows, kv_heads, slots_bT.shape[1], size)


def _scatter_meta(cache_bKSD: Tensor, update_bKTD: Tensor, first_b: Tensor) -> Tensor:
    return torch.empty_like(cache_bKSD)


def _attend_meta(query_bKMD: Tensor, keys_bKSD: Tensor, values_bKSD: Tensor, *rest) -> Tensor:
    return query_bKMD.new_empty(*query_bKMD.shape[:3], values_bKSD.shape[3])


_OPERATORS = {
    "read_slots": Operator("Tensor cache, Tensor slots", read_slots, _read_meta),
    "scatter_slots": Operator("Tensor cache, Tensor update, Tensor first", scatter_slots, _scatter_meta),
    "attend_live": Operator(
        "Tensor query, Tensor keys, Tensor values, Tensor mask, Tensor live, Tensor few, float? softcap, Tensor? sinks",
        attend_live,
        _attend_meta,
    ),
}


@cache
def onnx_operators() -> SimpleNamespace:
    """The operators as PyTorch calls them; defined at the first use."""
    library, namespace = define(_OPERATORS), getattr(torch.ops, NAMESPACE)
    return SimpleNamespace(library=library, **{name: getattr(namespace, name).default for name in _OPERATORS})
