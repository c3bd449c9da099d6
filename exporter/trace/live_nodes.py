"""Which nodes of a traced graph matter, and a graph without the others.

A node is live when it reaches an output or writes to state. PyTorch keeps more: it takes every in-place operator
and every assertion about a tensor's dtype for an effect. `encode` runs decoder layers of which only the key and
value projections are wanted; with the rest left in, their weights would be stored a second time.
"""

from __future__ import annotations

import operator
from collections import defaultdict

from torch.export import ExportedProgram
from torch.fx import Node


def live_nodes(program: ExportedProgram) -> set[Node]:
    """Nodes that reach an output or a write to a buffer, writes to their own intermediate results included."""
    writers: dict[Node, list[Node]] = defaultdict(list)
    for node in program.graph.nodes:
        for argument in written_arguments(node):
            writers[viewed(argument)].append(node)
    pending = [node for node in program.graph.nodes if node.op == "output"]
    for node, its_writers in writers.items():
        pending += its_writers if node.op == "placeholder" else []
    live: set[Node] = set()
    while pending:
        node = pending.pop()
        if node not in live:
            live.add(node)
            pending += [*node.all_input_nodes, *writers[viewed(node)]]
    return live


def drop_dead_nodes(program: ExportedProgram) -> None:
    """Remove every computation that is not live; inputs and parameters stay in the signature."""
    live = live_nodes(program)
    for node in reversed(list(program.graph.nodes)):
        if node not in live and node.op != "placeholder":
            program.graph.erase_node(node)
    program.graph_module.recompile()


def viewed(node: Node) -> Node:
    """The node whose memory `node` is a view of; itself when it has its own."""
    while node.op == "call_function" and returns_an_argument(node) and isinstance(node.args[0], Node):
        node = node.args[0]
    return node


def returns_an_argument(node: Node) -> bool:
    """Whether a result shares memory with the first argument: by the operator's schema, or as one of its results."""
    if node.target is operator.getitem:
        return True
    schema = getattr(node.target, "_schema", None)
    return schema is not None and any(result.alias_info is not None for result in schema.returns)


def written_arguments(node: Node) -> list[Node]:
    """Arguments that a node's operator schema marks as written."""
    schema = getattr(node.target, "_schema", None)
    if node.op != "call_function" or schema is None:
        return []
    written = []
    for place, argument in enumerate(schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write and place < len(node.args):
            written.append(node.args[place])
    return [argument for argument in written if isinstance(argument, Node)]
