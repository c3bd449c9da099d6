"""`encode` writes the keys and values of a layer before it projects those of the next, whatever order it was given."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.fx import Graph, GraphModule, Node, symbolic_trace

from exporter.cache.cached_attention import operators
from exporter.lower.executorch_order import is_cross_write, write_cross_caches_early
from exporter.lower.executorch_partition import by_cross_write

LAYERS = 3
WRITE = operators().write_cross.default


class AllProjectedFirst(nn.Module):
    """Keys and values of all layers, and then all writes: `[b, K, E, D]` to slots of caches."""

    def __init__(self) -> None:
        super().__init__()
        for layer in range(LAYERS):
            self.register_buffer(f"keys_{layer}", torch.zeros(2, 1, 5, 4))
            self.register_buffer(f"values_{layer}", torch.zeros(2, 1, 5, 4))

    def forward(self, states: Tensor, lengths: Tensor) -> Tensor:
        projected = [states * float(number + 1) for number in range(2 * LAYERS)]
        caches = [(getattr(self, f"keys_{layer}"), getattr(self, f"values_{layer}")) for layer in range(LAYERS)]
        pairs = zip(projected[::2], projected[1::2], caches, strict=True)
        return torch.cat([WRITE(keys, values, *cache, lengths) for keys, values, cache in pairs])


def most_alive(graph: Graph) -> int:
    """Products that are held at once, at most: those computed whose last reader has not run."""
    nodes = list(graph.nodes)
    made = [node for node in nodes if "mul" in node.name]
    last = {node: max(nodes.index(user) for user in node.users) for node in made}
    return max(sum(nodes.index(node) <= place <= last[node] for node in made) for place in range(len(nodes)))


def answers(module: nn.Module) -> list[Tensor]:
    states = torch.arange(2 * 5 * 4, dtype=torch.float32).reshape(2, 1, 5, 4)
    return [module(states, torch.tensor([5, 2])), *module.buffers()]


def test_a_layer_is_written_before_the_next_is_projected_and_the_caches_are_the_same() -> None:
    given = AllProjectedFirst()
    traced: GraphModule = symbolic_trace(AllProjectedFirst())
    assert most_alive(traced.graph) == 2 * LAYERS
    write_cross_caches_early(traced.graph)
    traced.recompile()
    assert most_alive(traced.graph) == 2
    assert len([node for node in traced.graph.nodes if is_cross_write(node)]) == LAYERS
    assert all(torch.equal(found, wanted) for found, wanted in zip(answers(traced), answers(given), strict=True))


def test_a_graph_without_writes_keeps_its_order() -> None:
    graph = symbolic_trace(lambda x: (x + 1) * (x + 2)).graph
    before = list(graph.nodes)
    write_cross_caches_early(graph)
    assert list(graph.nodes) == before


def auto_functionalized_v2(*arguments: object) -> None:
    """Stands for the operator of that name, which calls one that writes."""


def test_what_is_turned_for_one_write_is_a_group_of_its_own() -> None:
    graph = Graph()
    states = graph.placeholder("states")
    level: list[Node] = []
    for _ in range(LAYERS):
        turned = [graph.call_method("permute", (states, (0, 2, 1, 3))) for _ in ("keys", "values")]
        level += [*turned, *(copied := [graph.call_method("clone", (node,)) for node in turned])]
        graph.call_function(auto_functionalized_v2, (WRITE, *copied))
    shared = graph.call_method("relu", (states,))
    graph.output((shared, graph.call_method("tanh", (shared,))))
    groups = by_cross_write([*level, shared])
    assert groups == [level[:4], level[4:8], level[8:], [shared]]
