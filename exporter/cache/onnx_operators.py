"""Two steps of a cache write that core operators have no form for and ONNX has: read slots, scatter into slots.

They are functional: `scatter_slots` returns the cache that it changed. ONNX Runtime writes in place where the same
memory is bound to the program's input and output.

Shape legend: b rows, T step tokens, S slots, K key/value heads, D head size.
"""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace

import torch
from torch import Tensor

from exporter.operator_library import NAMESPACE, Operator, define


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


def _read_meta(cache_bKSD: Tensor, slots_bT: Tensor) -> Tensor:
    rows, kv_heads, _, size = cache_bKSD.shape
    return cache_bKSD.new_empty(rows, kv_heads, slots_bT.shape[1], size)


def _scatter_meta(cache_bKSD: Tensor, update_bKTD: Tensor, first_b: Tensor) -> Tensor:
    return torch.empty_like(cache_bKSD)


@cache
def onnx_operators() -> SimpleNamespace:
    """The operators as PyTorch calls them; defined at the first use."""
    library = define(
        {
            "read_slots": Operator("Tensor cache, Tensor slots", read_slots, _read_meta),
            "scatter_slots": Operator("Tensor cache, Tensor update, Tensor first", scatter_slots, _scatter_meta),
        }
    )
    namespace = getattr(torch.ops, NAMESPACE)
    return SimpleNamespace(
        library=library, read_slots=namespace.read_slots.default, scatter_slots=namespace.scatter_slots.default
    )
