"""Norms and rotations written out in a trace become the operators of `exporter.row_operators`.

Shape legend: C row width, b batch, H heads, T tokens, D head size.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.fx import Node

from exporter.lower.executorch_forms import copied, fold_constants, is_half_rotation, is_row_mean, is_scalar_sum
from exporter.row_operators import operators
from exporter.trace.trace import ExportedProgram

_ATEN = torch.ops.aten


def with_row_operators(program: ExportedProgram) -> ExportedProgram:
    """A copy of `program` (weights shared) that calls one operator for each norm and each rotation."""
    changed = copied(program)
    fold_constants(changed)
    for node in list(changed.graph.nodes):
        if is_row_mean(node):
            _replace_norm(changed, node)
        elif node.op == "call_function" and node.target == _ATEN.add.Tensor:
            _replace_rotation(changed, node)
    changed.graph.eliminate_dead_code()
    changed.graph_module.recompile()
    return changed


def _replace_norm(program: ExportedProgram, mean: Node) -> None:
    """`x * rsqrt(mean(x^2) + epsilon)`, and the multiplication with a weight `[C]` that follows."""
    square, shifted = mean.args[0], _only_user(mean)
    source = _squared(square)
    if source is None or shifted is None or not is_scalar_sum(shifted):
        return
    root = _only_user(shifted)
    if root is None or root.target != _ATEN.rsqrt.default:
        return
    normalized = _only_user(root)
    if normalized is None or _other_factor(normalized, root) is not source:
        return
    weight, last = None, normalized
    product = _only_user(normalized)
    if product is not None and _is_row(_other_factor(product, normalized)):
        weight, last = _other_factor(product, normalized), product
    _replace(program, last, operators().rms_norm.default, (source, weight, float(shifted.args[1])))


def _replace_rotation(program: ExportedProgram, total: Node) -> None:
    """`x * cos + concat(-x[D/2:], x[:D/2]) * sin` of four dimensions."""
    for straight, turned in (total.args[:2], total.args[1::-1]):
        for rotation in _factors(turned):
            if not is_half_rotation(rotation):
                continue
            source = rotation.args[0][1].args[0]
            cosine, sine = _other_factor(straight, source), _other_factor(turned, rotation)
            if source in _factors(straight) and all(_is_table(table, source) for table in (cosine, sine)):
                _replace(program, total, operators().rotate.default, (source, cosine, sine))
                return


def _replace(program: ExportedProgram, node: Node, operator, arguments: tuple) -> None:
    with program.graph.inserting_before(node):
        source = arguments[0]
        if not source.meta["val"].is_contiguous():
            in_rows = {"memory_format": torch.contiguous_format}
            dense = program.graph.call_function(_ATEN.clone.default, (source,), in_rows)
            dense.meta = {"val": source.meta["val"].contiguous()}
            arguments = (dense, *arguments[1:])
        call = program.graph.call_function(operator, arguments)
    call.meta = {key: node.meta[key] for key in ("val", "stack_trace") if key in node.meta}
    call.meta["val"] = node.meta["val"].contiguous()
    node.replace_all_uses_with(call)
    program.graph.erase_node(node)


def _only_user(node: Node) -> Node | None:
    return next(iter(node.users)) if len(node.users) == 1 else None


def _squared(node: object) -> Node | None:
    """x of `pow(x, 2)` or `x * x`."""
    if not isinstance(node, Node) or node.op != "call_function":
        return None
    if node.target == _ATEN.pow.Tensor_Scalar and node.args[1] == 2:
        return node.args[0]
    if node.target == _ATEN.mul.Tensor and node.args[0] is node.args[1]:
        return node.args[0]
    return None


def _factors(node: object) -> tuple[Node, ...]:
    """The operands of a product of two tensors; none for any other node."""
    if not isinstance(node, Node) or node.target != _ATEN.mul.Tensor:
        return ()
    return tuple(argument for argument in node.args if isinstance(argument, Node))


def _other_factor(node: object, factor: Node) -> Node | None:
    """The operand of a product beside `factor`."""
    factors = _factors(node)
    if len(factors) != 2 or factor not in factors:
        return None
    return factors[1] if factors[0] is factor else factors[0]


def _is_row(node: Node | None) -> bool:
    value = None if node is None else node.meta.get("val")
    return isinstance(value, Tensor) and value.dim() == 1 and value.dtype == torch.float32


def _is_table(node: Node | None, source: Node) -> bool:
    """Whether `node` is `[b or 1, 1, T, D]` for a source `[b, H, T, D]`."""
    value, like = None if node is None else node.meta.get("val"), source.meta["val"]
    if not isinstance(value, Tensor) or value.dim() != 4 or like.dim() != 4 or value.dtype != torch.float32:
        return False
    same_rows = value.shape[0] == like.shape[0] or value.shape[0] == 1
    return bool(same_rows and value.shape[1] == 1 and value.shape[2:] == like.shape[2:])
