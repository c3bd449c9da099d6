"""Operators that XNNPACK does not take, in terms of one it does: matrix products with a constant matrix.

A mean in every norm and two slices in every rotation cut a layer into a dozen delegates; written as products with
a row of 1/C and with a signed permutation, everything between two attentions is one delegate. What depends on weights
alone (the `1 + weight` of a norm) is computed here once instead of in every step.

Shape legend: C the size of the last dimension.
"""

from __future__ import annotations

import copy
import re
import sys

import torch
from executorch.backends.transforms.utils import create_constant_placeholder
from torch import Tensor
from torch.fx import Node
from torch.fx.node import map_arg

from exporter.trace.graph_checks import caches_of
from exporter.trace.shared_nodes import is_repeatable, written_tensors
from exporter.trace.trace import ExportedProgram, InputKind

_ATEN = torch.ops.aten
LARGEST_FOLDED = 1 << 16  # elements; what is large is a weight, and stays one
LARGEST_ROTATION = 256  # a larger permutation costs more to read than its slices cost to copy


def copied(program: ExportedProgram) -> ExportedProgram:
    """A copy with a graph of its own; weights are shared."""
    changed = copy.copy(program)
    changed._graph_module = copy.deepcopy(program.graph_module)
    changed._graph_signature = copy.deepcopy(program.graph_signature)
    changed._state_dict, changed._constants = dict(program.state_dict), dict(program.constants)
    return changed


def in_xnnpack_forms(program: ExportedProgram) -> ExportedProgram:
    """A copy of `program` (weights shared) with means and half rotations of the last dimension as products."""
    changed = copied(program)
    fold_constants(changed)
    for node in list(changed.graph.nodes):
        if is_row_mean(node):
            _replace_mean(changed, node)
        elif is_half_rotation(node):
            source, size = node.args[0][1].args[0], last_size(node)
            if size <= LARGEST_ROTATION:
                _replace(changed, node, source, f"rotate_half_of_{size}", half_rotation(size))
    changed.graph.eliminate_dead_code()
    changed.graph_module.recompile()
    return changed


def fold_constants(program: ExportedProgram) -> None:
    """Small results of weights and constants alone become constants."""
    known = stored_tensors(program)
    for node in program.graph.nodes:
        if is_foldable(node) and all(source in known for source in node.all_input_nodes):
            known[node] = node.target(*map_arg(node.args, known.get), **map_arg(node.kwargs, known.get))
    for node in [node for node in known if node.op == "call_function"]:
        if any(user not in known for user in node.users):
            constant = _constant(program, f"folded_{node.name}", known[node].contiguous())
            for user in [user for user in node.users if user not in known]:
                user.replace_input_with(node, constant)


def stored_tensors(program: ExportedProgram) -> dict[Node, Tensor]:
    """Parameters, constants and buffers that no method writes, by placeholder: `encode` writes what `decode` reads."""
    signature, written = program.graph_signature, written_tensors(program)
    caches = caches_of(program)
    names = signature.inputs_to_parameters | signature.inputs_to_buffers | signature.inputs_to_lifted_tensor_constants
    stored = program.state_dict | program.constants
    return {
        node: stored[names[node.name]]
        for node in program.graph.nodes
        if node.op == "placeholder" and node.name in names
        if node not in written and names[node.name] not in caches
    }


def is_foldable(node: Node) -> bool:
    """A call of tensors alone with a small result of static shape."""
    value = node.meta.get("val")
    if not is_repeatable(node) or not node.all_input_nodes or not isinstance(value, Tensor):
        return False
    return all(isinstance(size, int) for size in value.shape) and value.numel() <= LARGEST_FOLDED


def half_rotation(size: int) -> Tensor:
    """The `[C, C]` matrix R with `x R^T = concat(-x[C/2:], x[:C/2])` (rotary embedding, arXiv:2104.09864)."""
    half = size // 2
    matrix = torch.zeros(size, size)
    matrix[torch.arange(half), torch.arange(half) + half] = -1.0
    matrix[torch.arange(half) + half, torch.arange(half)] = 1.0
    return matrix


def is_row_mean(node: Node) -> bool:
    """`mean(x, [-1], keepdim=True)` of float32 with a static last dimension."""
    if node.target != _ATEN.mean.dim or len(node.args) < 3 or not node.args[2] or node.kwargs.get("dtype"):
        return False
    value = node.args[0].meta["val"]
    rank = value.dim()
    if value.dtype != torch.float32 or [dim % rank for dim in node.args[1]] != [rank - 1]:
        return False
    return isinstance(last_size(node.args[0]), int)


def is_half_rotation(node: Node) -> bool:
    """`cat([-x[..., C/2:], x[..., :C/2]], -1)` of float32."""
    if node.target != _ATEN.cat.default or len(node.args[0]) != 2 or len(node.args) < 2:
        return False
    upper, lower = node.args[0]
    rank, size = node.meta["val"].dim(), last_size(node)
    if node.meta["val"].dtype != torch.float32:
        return False
    if node.args[1] % rank != rank - 1 or not isinstance(size, int) or size % 2 or upper.target != _ATEN.neg.default:
        return False
    upper = upper.args[0]
    return is_slice(upper, size // 2, size) and is_slice(lower, 0, size // 2) and upper.args[0] is lower.args[0]


def is_slice(node: Node, start: int, end: int) -> bool:
    """`x[..., start:end]` with step 1, of an x whose two halves are cut."""
    if node.target != _ATEN.slice.Tensor or len(node.args) != 4:
        return False
    source, dim, given_start, given_end = node.args
    value = source.meta["val"]
    if dim % value.dim() != value.dim() - 1 or not isinstance(given_end, int):
        return False
    size = value.shape[-1]
    cut = ((given_start or 0), size if given_end == sys.maxsize else given_end)
    return cut == (start, end) and size == 2 * (end - start)


def last_size(node: Node) -> int:
    return node.meta["val"].shape[-1]


def _replace_mean(program: ExportedProgram, node: Node) -> None:
    """A mean, and the epsilon that a norm adds to it as the product's bias."""
    size, added = last_size(node.args[0]), next(iter(node.users), node)
    row = torch.full((1, size), 1.0 / size)
    if len(node.users) == 1 and is_scalar_sum(added):
        value = float(added.args[1])
        epsilon = _constant(program, f"epsilon_{re.sub(r'[^0-9a-f]', '_', value.hex())}", torch.tensor([value]))
        _replace(program, added, node.args[0], f"mean_of_{size}", row, epsilon)
        program.graph.erase_node(node)
    else:
        _replace(program, node, node.args[0], f"mean_of_{size}", row)


def is_scalar_sum(node: Node) -> bool:
    """`x + number`."""
    return node.target == _ATEN.add.Tensor and len(node.args) == 2 and isinstance(node.args[1], (int, float))


def _replace(
    program: ExportedProgram, node: Node, source: Node, name: str, matrix: Tensor, bias: Node | None = None
) -> None:
    """`node` becomes `linear(source, matrix, bias)`; one constant serves all nodes of a size."""
    weight = _constant(program, name, matrix)
    with program.graph.inserting_before(node):
        product = program.graph.call_function(_ATEN.linear.default, (source, weight, *([bias] if bias else [])))
    product.meta = {key: node.meta[key] for key in ("val", "stack_trace") if key in node.meta}
    node.replace_all_uses_with(product)
    program.graph.erase_node(node)


def _constant(program: ExportedProgram, name: str, value: Tensor) -> Node:
    """The placeholder of a constant of this name, made at its first use."""
    graph = program.graph
    with graph.inserting_before(next(iter(graph.nodes))):
        return create_constant_placeholder(program, graph, name, InputKind.BUFFER, value, persistent_buffer=True)
