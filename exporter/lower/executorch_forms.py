"""Operators that XNNPACK does not take, in terms of one it does: matrix products with a constant matrix.

A mean in every norm and two slices in every rotation cut a layer into a dozen delegates; written as products with
a row of 1/C and with a signed permutation, everything between two attentions is one delegate.

Shape legend: C the size of the last dimension.
"""

from __future__ import annotations

import copy
import sys

import torch
from executorch.backends.transforms.utils import create_constant_placeholder
from torch import Tensor
from torch.fx import Node

from exporter.trace.trace import ExportedProgram, InputKind

_ATEN = torch.ops.aten
LARGEST_ROTATION = 256  # a larger permutation costs more to read than its slices cost to copy


def in_xnnpack_forms(program: ExportedProgram) -> ExportedProgram:
    """A copy of `program` (weights shared) with means and half rotations of the last dimension as products."""
    changed = copy.copy(program)
    changed._graph_module = copy.deepcopy(program.graph_module)
    changed._graph_signature = copy.deepcopy(program.graph_signature)
    changed._state_dict, changed._constants = dict(program.state_dict), dict(program.constants)
    for node in list(changed.graph.nodes):
        if is_row_mean(node):
            size = last_size(node.args[0])
            _replace(changed, node, node.args[0], f"mean_of_{size}", torch.full((1, size), 1.0 / size))
        elif is_half_rotation(node):
            source, size = node.args[0][1].args[0], last_size(node)
            if size <= LARGEST_ROTATION:
                _replace(changed, node, source, f"rotate_half_of_{size}", half_rotation(size))
    changed.graph.eliminate_dead_code()
    changed.graph_module.recompile()
    return changed


def half_rotation(size: int) -> Tensor:
    """The `[C, C]` matrix R with `x R^T = concat(-x[C/2:], x[:C/2])` (rotary embedding, arXiv:2104.09864)."""
    half = size // 2
    matrix = torch.zeros(size, size)
    matrix[torch.arange(half), torch.arange(half) + half] = -1.0
    matrix[torch.arange(half) + half, torch.arange(half)] = 1.0
    return matrix


def is_row_mean(node: Node) -> bool:
    """`mean(x, [-1], keepdim=True)` of floats with a static last dimension."""
    if node.target != _ATEN.mean.dim or len(node.args) < 3 or not node.args[2] or node.kwargs.get("dtype"):
        return False
    rank = node.args[0].meta["val"].dim()
    return [dim % rank for dim in node.args[1]] == [rank - 1] and isinstance(last_size(node.args[0]), int)


def is_half_rotation(node: Node) -> bool:
    """`cat([-x[..., C/2:], x[..., :C/2]], -1)`."""
    if node.target != _ATEN.cat.default or len(node.args[0]) != 2 or len(node.args) < 2:
        return False
    upper, lower = node.args[0]
    rank, size = node.meta["val"].dim(), last_size(node)
    if node.args[1] % rank != rank - 1 or not isinstance(size, int) or upper.target != _ATEN.neg.default:
        return False
    upper = upper.args[0]
    return is_slice(upper, size // 2, size) and is_slice(lower, 0, size // 2) and upper.args[0] is lower.args[0]


def is_slice(node: Node, start: int, end: int) -> bool:
    """`x[..., start:end]` with step 1, where x ends at `end` or later."""
    if node.target != _ATEN.slice.Tensor or len(node.args) != 4:
        return False
    source, dim, given_start, given_end = node.args
    value = source.meta["val"]
    if dim % value.dim() != value.dim() - 1 or not isinstance(given_end, int):
        return False
    size = value.shape[-1]
    return (given_start or 0) == start and (size if given_end == sys.maxsize else given_end) == end


def last_size(node: Node) -> int:
    return node.meta["val"].shape[-1]


def _replace(program: ExportedProgram, node: Node, source: Node, name: str, matrix: Tensor) -> None:
    """`node` becomes `linear(source, matrix)`; one constant serves all nodes of a size."""
    graph = program.graph
    first = next(iter(graph.nodes))
    with graph.inserting_before(first):
        weight = create_constant_placeholder(program, graph, name, InputKind.BUFFER, matrix, persistent_buffer=True)
    with graph.inserting_before(node):
        product = graph.call_function(_ATEN.linear.default, (source, weight))
    product.meta = {key: node.meta[key] for key in ("val", "stack_trace") if key in node.meta}
    node.replace_all_uses_with(product)
    graph.erase_node(node)
