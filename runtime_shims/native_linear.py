"""The C++ products with stored weights as Python functions, for tests and measurements.

Weights are bytes in the layout of `cpp/ops/weight_layout.h`.

Shape legend: R rows, C inputs, N output features, G groups of inputs that share a scale.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime_shims.native import load_operator_library, open_library

if TYPE_CHECKING:
    from torch import Tensor


class _Bytes(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("bytes", ctypes.c_int64))


@dataclass(frozen=True)
class Format:
    """How a matrix `[N, C]` is stored: 32, 16, 8 or 4 bits, and inputs per scale for the last two."""

    width: int
    features: int
    bits: int
    group: int

    def as_c(self) -> ctypes.Array[ctypes.c_int64]:
        return (ctypes.c_int64 * 4)(self.width, self.features, self.bits, self.group)


def _bytes(tensor: Tensor | None) -> _Bytes:
    if tensor is None:
        return _Bytes(None, 0)
    if not tensor.is_contiguous():
        raise ValueError(f"the kernels take contiguous tensors; got strides {tensor.stride()}")
    return _Bytes(tensor.data_ptr(), tensor.nbytes)


def _bind(function: str, tensors: list[Tensor | None], layout: Format, rows: int) -> Callable[[], None]:
    library = open_library(load_operator_library())
    arguments = ((_Bytes * len(tensors))(*map(_bytes, tensors)), layout.as_c(), ctypes.c_int64(rows))
    kernel = getattr(library, f"fixed_capacity_{function}")

    def call(_kept_alive: list[Tensor | None] = tensors) -> None:
        if kernel(*arguments) != 0:
            reason: bytes = library.fixed_capacity_last_refusal()
            raise ValueError(f"{function}: {reason.decode()}")

    return call


def bind_linear(input: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor, layout: Format) -> Callable[[], None]:
    """`linear` on these tensors: float `[R, C]` or quantized rows, stored weights, out float32 `[R, N]`."""
    return _bind("linear", [input, weight, bias, out], layout, input.shape[0])


def linear(input: Tensor, weight: Tensor, bias: Tensor | None, layout: Format) -> Tensor:
    """The product `[R, N]`. Raises ValueError when the kernel refuses its arguments."""
    out = weight.new_empty((input.shape[0], layout.features), dtype=_float32())
    bind_linear(input, weight, bias, out, layout)()
    return out


def quantize_rows(input: Tensor, group: int) -> Tensor:
    """Rows of floats `[R, C]` as bytes `[R, row_bytes]`: int8 values, float32 scales, int32 sums."""
    groups = -(-input.shape[1] // group)
    out = input.new_empty((input.shape[0], groups * (group + 8)), dtype=_uint8())
    _bind("quantize_rows", [input, out], Format(input.shape[1], 1, 8, group), input.shape[0])()
    return out


def embed(indices: Tensor, weight: Tensor, layout: Format) -> Tensor:
    """Stored features `indices` as float32 rows `[R, C]`."""
    out = weight.new_empty((indices.shape[0], layout.width), dtype=_float32())
    _bind("embed", [indices, weight, out], layout, indices.shape[0])()
    return out


def _float32():
    import torch

    return torch.float32


def _uint8():
    import torch

    return torch.uint8
