"""A traced graph without work that is done twice: equal calls on equal inputs, and casts to the type a tensor has.

Models recompute what depends on a step alone in every layer (the axis added to a rotary table, an index range).
Every node costs time in each of lowering's passes, and some of them cost time in each step.
"""

from __future__ import annotations

from collections.abc import Hashable

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from exporter.trace.live_nodes import viewed, written_arguments

_ATEN = torch.ops.aten
_CASTS = (_ATEN.to.dtype, _ATEN._to_copy.default)


def share_equal_nodes(program: ExportedProgram) -> None:
    """Keep the first of several equal calls, and drop casts that change nothing. State is read where it was read."""
    stateful = written_tensors(program)
    first: dict[Hashable, Node] = {}
    for node in list(program.graph.nodes):
        if node.op != "call_function" or viewed(node) in stateful:
            continue
        if is_empty_cast(node):
            kept = node.args[0]
        elif is_repeatable(node) and not any(viewed(source) in stateful for source in node.all_input_nodes):
            kept = first.setdefault(call_key(node), node)
        else:
            continue
        if kept is not node:
            node.replace_all_uses_with(kept)
            program.graph.erase_node(node)
    program.graph_module.recompile()


def written_tensors(program: ExportedProgram) -> set[Node]:
    """What some node writes to: caches, and results that are written in place."""
    return {viewed(argument) for node in program.graph.nodes for argument in written_arguments(node)}


def is_repeatable(node: Node) -> bool:
    """Whether the call is an ATen operator without random numbers; those of equal arguments are equal."""
    if not isinstance(node.target, torch._ops.OpOverload) or node.target.namespace != "aten":
        return False
    return torch.Tag.nondeterministic_seeded not in node.target.tags


def is_empty_cast(node: Node) -> bool:
    """A cast to the tensor's own type and nothing else."""
    if node.target not in _CASTS or len(node.args) != 2 or node.kwargs:
        return False
    return node.args[1] == node.args[0].meta["val"].dtype


def call_key(node: Node) -> Hashable:
    """Equal for calls of one operator with the same arguments."""
    return node.target, _hashable(node.args), _hashable(node.kwargs)


def _hashable(value) -> Hashable:
    if isinstance(value, (list, tuple)):
        return tuple(_hashable(item) for item in value)
    if isinstance(value, dict):
        return tuple((key, _hashable(item)) for key, item in sorted(value.items()))
    return (type(value), repr(value) if isinstance(value, float) else value)  # 0.0 and -0.0 are equal numbers
