"""The weights of all graphs of an ONNX program, each stored once in one file beside them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import onnx_ir as ir
from onnx_ir.external_data import convert_tensors_to_external

SMALLEST_STORED = 1 << 10
"""Bytes; what is smaller stays in the graph, where shapes that are constants must be."""
PAGE = 4096
"""Large weights begin at a page, from which a runtime can map them."""


def store_weights(models: Iterable[ir.Model], directory: Path, name: str) -> None:
    """Write `directory/name`, and make it what the initializers of the models refer to."""
    tensors: dict[tuple, ir.TensorProtocol] = {}
    users: dict[tuple, list[ir.Value]] = {}
    for value, tensor in _stored(models):
        content = _content(tensor)
        tensors.setdefault(content, tensor)
        users.setdefault(content, []).append(value)
    external = convert_tensors_to_external(list(tensors.values()), directory, name, alignment=PAGE)
    for stored, values in zip(external, users.values(), strict=True):
        for value in values:
            value.const_value = _shaped(stored, value)


def _shaped(stored: ir.ExternalTensor, value: ir.Value) -> ir.ExternalTensor:
    """The stored bytes in the shape that this value has: a lookup reads a matrix by rows, a product by groups."""
    if value.shape is None or value.shape == stored.shape:
        return stored
    place = (stored.location, stored.offset, stored.length, stored.dtype)
    return ir.ExternalTensor(*place, shape=value.shape, name=stored.name, base_dir=stored.base_dir)


def _stored(models: Iterable[ir.Model]) -> Iterator[tuple[ir.Value, ir.TensorProtocol]]:
    for model in models:
        for value in model.graph.initializers.values():
            if value.const_value is not None and value.const_value.nbytes >= SMALLEST_STORED:
                yield value, value.const_value


def _content(tensor: ir.TensorProtocol) -> tuple:
    """Equal for equal bytes: a weight has no identity of its own once the methods are traced apart."""
    return tensor.dtype, hashlib.sha256(tensor.numpy().data.cast("B")).digest()
