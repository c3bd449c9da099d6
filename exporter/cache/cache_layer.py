"""Cache layers over preallocated buffers, in transformers' cache-layer interface.

A layer owns memory and nothing else: positions, lengths and rollback live in the cursor
(`runtime_shims.contract.sequence_cursor`), the arithmetic in the operator. `update()` hands the step's keys and
values through, and the attention bound to the layer writes and reads the buffers. A static layer is the ring that
never wraps, so one class serves both.

Shape legend: B cache rows, K key/value heads, S slots, D key head size, Dv value head size.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers.cache_utils import CacheLayerMixin

from exporter.cache.stored_states import stored_size
from runtime_shims.contract.cache_geometry import CacheGeometry, CrossGeometry


class CacheLayer(nn.Module, CacheLayerMixin):
    """Buffers `key_cache [B, K, S, D]` and `value_cache [B, K, S, Dv]`, or flat `[B * K * S, D]` when `flat`.

    With 8 bits the last size is that of `stored_size`.

    The buffers are submodule state with exactly one name each, which is what lets export treat their mutation as
    one piece of state shared by all methods of a program.
    """

    is_compileable = True
    is_croppable = False  # the cursor takes tokens back; a layer does not know how far is too far

    def __init__(
        self,
        geometry: CacheGeometry | CrossGeometry,
        shape_BKDD: tuple[int, int, int, int],
        *,
        dtype: torch.dtype = torch.float32,
        flat: bool = False,
        window: int | None = None,
    ) -> None:
        """`window` is what a query of a sliding layer sees, if that is less than the geometry's reach."""
        nn.Module.__init__(self)
        self.geometry = geometry
        self.rows, self.kv_heads, key_dim, value_dim = shape_BKDD
        self.slots = geometry.slots
        self.is_sliding = geometry.kind == "sliding" if isinstance(geometry, CacheGeometry) else False
        self.window: int | None = None
        if isinstance(geometry, CacheGeometry) and self.is_sliding:
            self.window = window or geometry.reach
        self.is_initialized = True
        lead = (self.rows * self.kv_heads * self.slots,) if flat else (self.rows, self.kv_heads, self.slots)
        self.register_buffer("key_cache", torch.zeros(*lead, stored_size(key_dim, dtype), dtype=dtype))
        self.register_buffer("value_cache", torch.zeros(*lead, stored_size(value_dim, dtype), dtype=dtype))

    def views_BKSD(self) -> tuple[Tensor, Tensor]:
        """The caches as `[B, K, S, D]`, whatever their storage; views, never copies."""
        lead = (self.rows, self.kv_heads, self.slots)
        return self.key_cache.view(*lead, -1), self.value_cache.view(*lead, -1)

    def views_NSD(self) -> tuple[Tensor, Tensor]:
        """Flat caches as `[B * K, S, D]`; views, never copies."""
        lead = (self.rows * self.kv_heads, self.slots)
        return self.key_cache.view(*lead, -1), self.value_cache.view(*lead, -1)

    @property
    def keys(self) -> Tensor:  # read directly by encoder-decoder models once `is_updated` is set
        return self.views_BKSD()[0]

    @property
    def values(self) -> Tensor:
        return self.views_BKSD()[1]

    def update(self, key_states: Tensor, value_states: Tensor, *args, **kwargs) -> tuple[Tensor, Tensor]:
        """Hand the step through; the bound attention writes it."""
        return key_states, value_states

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Nothing to do: the buffers exist from construction."""

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.slots, 0

    def get_seq_length(self) -> int:
        """0: positions are given to the model explicitly, never derived from the cache."""
        return 0

    def get_max_length(self) -> int:
        return self.geometry.slots

    def reset(self) -> None:
        """Zero the buffers. Requests do not need it (what they did not write is not visible); debugging does."""
        self.key_cache.zero_()
        self.value_cache.zero_()
