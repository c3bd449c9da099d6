"""What the exporter of PyTorch does not know, or writes in a form that costs more, in ONNX's operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from onnxscript.onnx_opset import opset24

from exporter.cache.onnx_operators import onnx_operators
from exporter.lower.onnx_attention import attend_live
from exporter.lower.onnx_integers import quantized_dense, quantized_embedding
from exporter.weights.operators import operators

op: Any = opset24  # its annotations name types of values, and these are symbols


def translations() -> dict[Callable, Callable]:
    """PyTorch operator -> function that adds its ONNX form to the graph."""
    ours, stored = onnx_operators(), operators()
    return {
        ours.read_slots: read_slots,
        ours.scatter_slots: scatter_slots,
        ours.attend_live: attend_live,
        stored.quantized_dense.default: quantized_dense,
        stored.quantized_embedding.default: quantized_embedding,
        torch.ops.aten.linear.default: linear,
    }


def read_slots(cache: Any, slots: Any) -> Any:
    """Whole head vectors at `[b, T]` slots of a cache `[b, K, S, D]`."""
    kv_heads = op.Shape(cache, start=1, end=2)
    one = op.Constant(value_ints=[1])
    index = op.Expand(op.Unsqueeze(slots, op.Constant(value_ints=[1, 3])), op.Concat(one, kv_heads, one, one, axis=0))
    return op.GatherND(cache, index, batch_dims=2)


def scatter_slots(cache: Any, update: Any, first: Any) -> Any:
    """The ring write; a cache that never wraps is a ring that is long enough."""
    return op.TensorScatter(cache, update, first, axis=2, mode="circular")


def linear(source: Any, weight: Any, bias: Any = None) -> Any:
    """A product with the weight as it is stored, `[out, in]`: a transposed copy would be stored a second time."""
    if len(source.shape) == 2:
        return op.Gemm(source, weight, bias, transB=1)
    outside, inside = weight.shape
    rows = op.Reshape(source, op.Constant(value_ints=[-1, int(inside)]))
    sizes = op.Concat(op.Shape(source, start=0, end=-1), op.Constant(value_ints=[int(outside)]), axis=0)
    return op.Reshape(op.Gemm(rows, weight, bias, transB=1), sizes)
