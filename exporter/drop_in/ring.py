"""Positions in a ring of slots: position p lies in slot p mod S.

Shape legend: ``b`` batch rows, ``K`` key/value heads, ``S`` slots, ``t`` positions, ``D`` head size.

Each function has two spellings. Eager PyTorch takes slices, which are views wherever positions do not cross the seam.
`torch.compile` takes indices: slices would need a graph each for before, after and across the seam, and a model would
soon reach the number of graphs at which `torch.compile` gives up.
"""

from __future__ import annotations

import torch
from torch import Tensor


def write_ring(ring: Tensor, states: Tensor, start: int) -> None:
    """Put `states`, [b, K, t, D] with t <= S, at the slots of the positions from `start` on; ring [b, K, S, D]."""
    slots, count = ring.shape[2], states.shape[2]
    if torch.compiler.is_compiling():
        ring.index_copy_(2, _slots_of(ring, start, count), states)
        return
    slot = start % slots
    before_seam = min(count, slots - slot)
    ring[:, :, slot : slot + before_seam] = states[:, :, :before_seam]
    if before_seam < count:
        ring[:, :, : count - before_seam] = states[:, :, before_seam:]


def read_ring(ring: Tensor, first: int, end: int) -> Tensor:
    """The positions from `first` up to `end`, at most S of them, oldest first: [b, K, end - first, D]."""
    slots = ring.shape[2]
    if torch.compiler.is_compiling():
        return ring.index_select(2, _slots_of(ring, first, end - first))
    begin = first % slots
    stop = begin + end - first
    if stop <= slots:
        return ring[:, :, begin:stop]
    return torch.cat([ring[:, :, begin:], ring[:, :, : stop - slots]], dim=2)


def _slots_of(ring: Tensor, first: int, count: int) -> Tensor:
    """Slots of `count` positions from `first` on: int64[count]."""
    return (torch.arange(count, device=ring.device) + first) % ring.shape[2]
