"""A cross-attention layer's cache: the encoder's keys and values, written once per request.

Shape legend: ``B`` batch rows, ``E`` encoder output positions, ``K`` heads, ``D`` head size; lower case is live.

Models read `keys` and `values` themselves once the cache says that it is filled. Both are the live part only, so no
mask has to hide the rest: Whisper has none to give.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import CacheLayerMixin

from exporter.drop_in.plan import Capacity, LayerPlan
from exporter.drop_in.refusals import check_states
from runtime_shims.contract.errors import CapacityExceeded


class CrossAttentionLayer(CacheLayerMixin):
    """Keys and values of one layer over the encoder's output.

    Attributes:
        length: encoder positions of this request; 0 until they are written.
        rows: batch rows of this request.
    """

    is_compileable = False
    is_croppable = True
    is_initialized = True
    is_sliding = False

    def __init__(self, index: int, plan: LayerPlan, capacity: Capacity, forget: Callable[[], None]) -> None:
        """Allocate [max_batch, K, max_enc, D] twice. `forget` drops the whole request, for one that does not fit."""
        self.index = index
        self._forget = forget
        self.max_enc = capacity.max_enc or 0
        shape = (capacity.max_batch, plan.heads, self.max_enc)
        self.key_buffer = torch.zeros(*shape, plan.key_size, dtype=capacity.dtype, device=capacity.device)
        self.value_buffer = torch.zeros(*shape, plan.value_size, dtype=capacity.dtype, device=capacity.device)
        self.reset()

    def reset(self) -> None:
        """Forget the request."""
        self.length = 0
        self.rows = 0

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Keep the request's keys and values, [b, K, e, D] each; they come back as `keys` and `values`.

        Raises:
            CapacityExceeded: too many encoder positions; nothing of the request is kept.
            UnsupportedSetting: the states are not those that the config promised.
        """
        check_states(self, key_states, value_states)
        rows, length = key_states.shape[0], key_states.shape[2]
        if length > self.max_enc:
            self._forget()  # the first layer's own keys and values are written by now
            raise CapacityExceeded(
                f"{length} encoder positions, the cache holds {self.max_enc}: make it with max_enc >= {length}"
            )
        self.rows, self.length = rows, length
        self.keys.copy_(key_states.detach())
        self.values.copy_(value_states.detach())
        return self.keys, self.values

    @property
    def keys(self) -> Tensor:
        """[b, K, e, D], a view."""
        return self.key_buffer[: self.rows, :, : self.length]

    @property
    def values(self) -> Tensor:
        """[b, K, e, D], a view."""
        return self.value_buffer[: self.rows, :, : self.length]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.length, 0

    def get_seq_length(self) -> int:
        return self.length

    def get_max_length(self) -> int:
        return self.max_enc

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Nothing: the buffers exist from the start."""

    def reorder_cache(self, beam_idx: Tensor) -> None:
        self.batch_select_indices(beam_idx)

    def batch_select_indices(self, indices: Tensor) -> None:
        for buffer in (self.key_buffer, self.value_buffer):
            live = buffer[: self.rows, :, : self.length].index_select(0, indices.to(buffer.device))
            buffer[: len(indices), :, : self.length] = live
        self.rows = len(indices)

    def batch_repeat_interleave(self, repeats: int) -> None:
        self.batch_select_indices(torch.arange(self.rows).repeat_interleave(repeats))
