"""Methods whose caches are inputs and outputs: what is traced for ONNX, which has no state.

A cache is `[b, K, S, D]`, where b is the batch of the call: a runtime passes the first b rows of its memory.
`encode` takes and returns the cross caches. `decode` takes all caches and returns those of self-attention.
"""

from __future__ import annotations

from typing import TypeGuard

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from exporter.cache.cache_layer import CacheLayer
from exporter.cache.onnx_form import Caches, OnnxSpelling
from exporter.models.fixed_capacity_model import FixedCapacityModel

from .clean_export import dynamic_axes, export_clean
from .methods import Axis, Method, MethodInput, index_dtype

DRAFT = "draft"
"""The method that reads caches and writes none."""
CACHES = "caches"
"""What the tracer's names of cache inputs begin with: the name of the argument."""


class FunctionalMethod(nn.Module):
    """`method(inputs, caches) -> result, written caches`, over the method's own module.

    Indices come and go in the plan's type; the module computes in int64.
    """

    def __init__(self, name: str, method: nn.Module) -> None:
        super().__init__()
        self.method = method
        self.index = index_dtype(method.root.plan)
        self.taken, self.written = layers_taken(name, method), layers_written(name, method)

    def forward(
        self, inputs: tuple[Tensor, ...], caches: tuple[Caches, ...]
    ) -> tuple[Tensor | tuple[Tensor, ...], tuple[Caches, ...]]:
        with self.method.root.spelling.given(self.taken, caches) as held:
            result = self.method(*_indices(inputs, torch.int64))
        return _result(result, self.index), tuple(held[layer] for layer in self.written)


class StatefulMethod(nn.Module):
    """A traced functional method over the layers' own buffers: what a runtime makes of it."""

    def __init__(self, program: ExportedProgram, name: str, method: nn.Module) -> None:
        super().__init__()
        self.program, self.index = program.module(), index_dtype(method.root.plan)
        self.taken, self.written = layers_taken(name, method), layers_written(name, method)

    def forward(self, *inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
        rows = inputs[0].shape[0]
        caches = tuple((layer.key_cache[:rows], layer.value_cache[:rows]) for layer in self.taken)
        result, written = self.program(_indices(inputs, self.index), caches)
        for layer, (keys, values) in zip(self.written, written, strict=True):
            layer.key_cache[:rows].copy_(keys)
            layer.value_cache[:rows].copy_(values)
        return _result(result, torch.int64)


def _result(result: Tensor | tuple[Tensor, ...], dtype: torch.dtype) -> Tensor | tuple[Tensor, ...]:
    """What a method returns, one tensor or several, with its integers in `dtype`."""
    if isinstance(result, Tensor):
        return _indices((result,), dtype)[0]
    return _indices(tuple(result), dtype)


def _indices(tensors: tuple[Tensor, ...], dtype: torch.dtype) -> tuple[Tensor, ...]:
    """Tensors of integers in another type of integers, others as they are."""
    return tuple(tensor if tensor.is_floating_point() else tensor.to(dtype) for tensor in tensors)


def has_functional_caches(method: nn.Module | None) -> TypeGuard[nn.Module]:
    """Whether the caches of a method become inputs and outputs: its spelling is ONNX's."""
    root = getattr(method, "root", None)
    return isinstance(root, FixedCapacityModel) and isinstance(root.spelling, OnnxSpelling)


def runnable(name: str, program: ExportedProgram, method: nn.Module | None) -> nn.Module:
    """A traced method as a module that is called as `method` is, over the same caches; None when it has none."""
    return StatefulMethod(program, name, method) if has_functional_caches(method) else program.module()


def layers_taken(name: str, method: nn.Module) -> list[CacheLayer]:
    """The caches that a method reads, in the order of the plan."""
    root = method.root
    if name == DRAFT:
        donors = root.plan.assistant.donors.values()
        places = enumerate(root.plan.self_caches)
        return [root.self_layers[index] for index, entry in places if entry.layer in donors]
    return [*([] if name == "encode" else root.self_layers), *root.cross_layers]


def layers_written(name: str, method: nn.Module) -> list[CacheLayer]:
    """The caches that a method writes."""
    if name == DRAFT:
        return []
    return list(method.root.cross_layers if name == "encode" else method.root.self_layers)


def trace_functional(module: nn.Module, method: Method) -> ExportedProgram:
    """Export one method with its caches as inputs and outputs."""
    dims: dict[str, Dim] = {}
    rows = method.inputs[0].axes[0]
    caches = [
        (_cache_input(layer.key_cache, rows), _cache_input(layer.value_cache, rows))
        for layer in layers_taken(method.name, module)
    ]
    samples = (
        tuple(tensor.sample() for tensor in method.inputs),
        tuple((keys.sample(), values.sample()) for keys, values in caches),
    )
    shapes = (
        tuple(dynamic_axes(tensor, dims) for tensor in method.inputs),
        tuple((dynamic_axes(keys, dims), dynamic_axes(values, dims)) for keys, values in caches),
    )
    return export_clean(FunctionalMethod(method.name, module), samples, shapes)


def _cache_input(buffer: Tensor, rows: Axis) -> MethodInput:
    sizes = (Axis(None, size) for size in buffer.shape[1:])
    return MethodInput("cache", buffer.dtype, (rows, *sizes))
