"""A self-attention layer's cache: one buffer, allocated once, whose live part is what attention gets to see.

Shape legend: ``B`` batch rows, ``T`` step tokens, ``S`` slots, ``K`` key/value heads, ``D`` head size. Lower case
(``b``, ``s``) is the live part of a capacity.

What `update` returns are the positions that transformers' own dynamic layers return, in the same order and of the same
sizes. The masks that a model makes therefore fit as they are, for every family, padded batch and attention
implementation, and nothing that is not live is ever read.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import CacheLayerMixin

from exporter.drop_in.plan import Capacity, LayerPlan
from exporter.drop_in.refusals import check_states
from exporter.drop_in.ring import read_ring, write_ring
from runtime_shims.contract.errors import CapacityExceeded


class SelfAttentionLayer(CacheLayerMixin):
    """Keys and values of one full or sliding layer. A full layer is the ring that never wraps.

    Attributes:
        length: positions that are held.
        high_water: highest length there was in this request; see `cache_geometry`.
        rows: batch rows of this request; 0 before its first step.
    """

    is_compileable = False
    is_croppable = True
    is_initialized = True

    def __init__(self, index: int, plan: LayerPlan, capacity: Capacity) -> None:
        """Allocate [max_batch, K, slots, D] twice."""
        self.index = index
        self.geometry = plan.geometry(capacity)
        self.is_sliding = plan.window is not None
        self.capacity = capacity
        self.slots = self.geometry.slots
        shape = (capacity.max_batch, plan.heads, self.slots)
        self.key_buffer = torch.zeros(*shape, plan.key_size, dtype=capacity.dtype, device=capacity.device)
        self.value_buffer = torch.zeros(*shape, plan.value_size, dtype=capacity.dtype, device=capacity.device)
        self.reset()

    def reset(self) -> None:
        """Forget the request. Nothing is cleared: what is not live is never read."""
        self.length = 0
        self.high_water = 0
        self.rows = 0

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Write a step, [b, K, T, D] each; the visible positions and the step's own come back, [b, K, s + T, D].

        Raises:
            CapacityExceeded: too many rows or positions; nothing was written.
            UnsupportedSetting: the states are not those that the config promised.
        """
        rows, step = key_states.shape[0], key_states.shape[2]
        check_states(self, key_states, value_states)
        self._check_rows(rows)
        self._check_room(step)
        self.rows = rows
        start, end = self.length, self.length + step
        first = start - self._visible(start)
        written = min(step, self.slots)
        keys, values = self.key_buffer[:rows], self.value_buffer[:rows]
        key_states, value_states = key_states.detach(), value_states.detach()  # buffers hold numbers, no graphs
        if self.is_sliding and (torch.compiler.is_compiling() or (step > self.geometry.max_step and end > self.slots)):
            # A prefill wider than the ring was sized for overwrites what it still reads, so it reads first.
            seen_keys = torch.cat([self._read(keys, first, start), key_states], dim=2)
            seen_values = torch.cat([self._read(values, first, start), value_states], dim=2)
            self._write(keys, key_states[:, :, step - written :], end - written)
            self._write(values, value_states[:, :, step - written :], end - written)
        else:
            self._write(keys, key_states, start)
            self._write(values, value_states, start)
            seen_keys, seen_values = self._read(keys, first, end), self._read(values, first, end)
        self.length = end
        self.high_water = max(self.high_water, end)
        return seen_keys, seen_values

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """How many positions the next step of `query_length` tokens attends to, and the first of them.

        Raises CapacityExceeded here already, before a model makes masks that would not fit (Falcon's with ALiBi).
        """
        self._check_room(query_length)
        visible = self._visible(self.length)
        return visible + query_length, self.length - visible

    def get_seq_length(self) -> int:
        return self.length

    def get_max_length(self) -> int:
        return self.capacity.max_dec

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Nothing: the buffers exist from the start."""

    @property
    def keys(self) -> Tensor:
        """The positions that the next step can see, oldest first: [b, K, s, D]."""
        return self._read(self.key_buffer[: self.rows], self.length - self._visible(self.length), self.length)

    @property
    def values(self) -> Tensor:
        """As `keys`."""
        return self._read(self.value_buffer[: self.rows], self.length - self._visible(self.length), self.length)

    @property
    def max_rollback(self) -> int:
        """Most positions that can be taken back now."""
        return self.length - self.geometry.rollback_floor(self.high_water)

    def crop(self, tokens_to_remove: int) -> None:
        """Take back `-tokens_to_remove` positions, which the cache has checked; see `FixedCapacityCache.crop`."""
        self.length += tokens_to_remove

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Row i becomes what row `beam_idx[i]` was: int64[b]. Written in place, live slots only."""
        self.batch_select_indices(beam_idx)

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep these rows, in this order. As `reorder_cache`, and the number of rows may change."""
        held = min(self.high_water, self.slots)
        self._check_rows(len(indices))
        for buffer in (self.key_buffer, self.value_buffer):
            buffer[: len(indices), :, :held] = buffer[: self.rows, :, :held].index_select(0, indices.to(buffer.device))
        self.rows = len(indices)

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Every row `repeats` times in a row."""
        self._check_rows(self.rows * repeats)
        self.batch_select_indices(torch.arange(self.rows).repeat_interleave(repeats))

    def _visible(self, length: int) -> int:
        """Positions before `length` that the query at `length` looks back on."""
        return min(length, self.geometry.reach - 1)

    def _write(self, live: Tensor, states: Tensor, start: int) -> None:
        """Put states, [b, K, t, D] with t <= slots, at the slots of the positions from `start` on."""
        if self.is_sliding:
            write_ring(live, states, start)
        else:
            live[:, :, start : start + states.shape[2]] = states

    def _read(self, live: Tensor, first: int, end: int) -> Tensor:
        """Positions `first` up to `end`, oldest first."""
        return read_ring(live, first, end) if self.is_sliding else live[:, :, first:end]

    def _check_room(self, step: int) -> None:
        end = self.length + step
        # A step of drafts may hang over the capacity: what is accepted of it does not.
        hangs_over = step <= self.geometry.max_step and self.length < self.capacity.max_dec
        if end > self.capacity.max_dec and not hangs_over:
            raise CapacityExceeded(
                f"{step} more decoder positions after {self.length}, the cache holds {self.capacity.max_dec}: "
                f"make it with max_dec >= {end}"
            )

    def _check_rows(self, rows: int) -> None:
        if rows > self.capacity.max_batch:
            raise CapacityExceeded(
                f"{rows} batch rows (beams and returned sequences included), the cache holds "
                f"{self.capacity.max_batch}: make it with max_batch >= {rows}"
            )
