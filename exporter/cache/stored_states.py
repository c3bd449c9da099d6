"""What a cache makes of keys and values: single or half precision, or 8 bits with a scale for each position of a head.

Arithmetic is always in single precision. An 8-bit position of `D` values is `D + 4` bytes: values, then the float32
`largest magnitude / 127` by which they are multiplied. It is one row, so that a ring of such positions is a ring like
any other.
"""

from __future__ import annotations

import torch
from torch import Tensor

from runtime_shims.contract.cache_types import SCALE_BYTES, tail_elements

_LARGEST = torch.finfo(torch.float32).max


def stored_size(head_size: int, dtype: torch.dtype) -> int:
    """Elements of one position of a cache of `dtype`."""
    return head_size + tail_elements(_name(dtype))


def head_size(cache: Tensor) -> int:
    """Values of one position of a cache `[..., stored size]`."""
    return cache.shape[-1] - tail_elements(_name(cache.dtype))


def as_stored(states: Tensor, dtype: torch.dtype) -> Tensor:
    """Keys or values `[..., D]` as a cache of `dtype` holds them, `[..., stored_size(D)]`.

    Half precision: rounded, and beyond its largest number that number, not infinity. 8 bits: infinity or NaN make all
    of a position NaN.
    """
    if states.dtype == dtype:
        return states
    if dtype == torch.int8:
        return _as_bytes(states)
    largest = torch.finfo(dtype).max
    return states.clamp(-largest, largest).to(dtype)


def as_floats(cache: Tensor) -> Tensor:
    """The values of a cache in float32, `[..., D]`."""
    if cache.dtype != torch.int8:
        return cache.float()
    return cache[..., :-SCALE_BYTES].float() * _bits(cache[..., -SCALE_BYTES:], torch.float32)


def _as_bytes(states: Tensor) -> Tensor:
    largest = states.abs().amax(-1, keepdim=True)
    inverse = 127.0 / largest
    has_scale = (inverse > 0) & (inverse <= _LARGEST)  # not zero, not too small to be scaled, not infinite, not NaN
    values = torch.where(has_scale, (states * inverse).round(), 0.0).to(torch.int8)
    return torch.cat((values, _bits(largest / 127.0, torch.int8)), -1)


def _bits(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """The same bits read as `dtype`; a copy, because a slice may begin anywhere."""
    return tensor.clone(memory_format=torch.contiguous_format).view(dtype)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
