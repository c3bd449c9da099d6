"""The order of operations in `encode`: each write to a cross cache as soon as what it writes is there.

Grouping into delegates leaves operations of all layers side by side. The keys and values of every layer would then be
projected before the first is written, and memory would be planned for all of them at once.
"""

from __future__ import annotations

from torch.fx import Graph, Node


def write_cross_caches_early(graph: Graph) -> None:
    """Order `graph` so that a write comes right behind what it needs, and what later writes need behind it.

    Operations here give tensors of their own, and a cross cache is written once and not read: any order in which inputs
    come first computes the same.
    """
    roots = [node for node in graph.nodes if is_cross_write(node) or not node.users]
    if not any(map(is_cross_write, roots)):
        return
    first, *rest = inputs_first(graph, roots)
    for node in rest:
        first.append(node)
        first = node
    graph.lint()


def is_cross_write(node: Node) -> bool:
    """A call of our operator that writes keys and values of the encoder's output."""
    return node.op == "call_function" and "write_cross" in str(node.target)


def inputs_first(graph: Graph, roots: list[Node]) -> list[Node]:
    """All nodes: the inputs of the graph, then each root behind what it needs and nothing else."""
    order = dict.fromkeys(node for node in graph.nodes if node.op in ("placeholder", "get_attr"))
    for root in roots:
        waiting = [root]
        while waiting:
            node = waiting[-1]
            missing = [source for source in node.all_input_nodes if source not in order]
            if missing:
                waiting.append(missing[0])
            else:
                order[waiting.pop()] = None
    return list(order)
