"""Memory planning that knows an in-place write returns the buffer it wrote.

ExecuTorch's reinplace pass turns `index_put` into `index_put_`, but leaves the result a tensor of its own: a static
view of the result is then placed in memory that is never written, and every cache is reserved twice. Here the result
takes the buffer's memory, so views read what was written and nothing is reserved for it.
"""

from __future__ import annotations

from executorch.exir.passes import MemoryPlanningPass
from torch.fx import GraphModule, Node

from exporter.lower.executorch_order import write_cross_caches_early


class InPlaceMemoryPlanning(MemoryPlanningPass):
    """`MemoryPlanningPass` over caches shared by all methods, with in-place results aliased to their buffers."""

    def __init__(self) -> None:
        super().__init__(alloc_graph_input=False, share_mutable_buffers=True)

    def run(self, graph_module: GraphModule, graph_signature=None):
        write_cross_caches_early(graph_module.graph)
        for node in graph_module.graph.nodes:
            if is_in_place_write(node):
                alias_result(node)
        return super().run(graph_module, graph_signature)


def is_in_place_write(node: Node) -> bool:
    """An `index_put_` call: the only in-place form the reinplace pass makes here."""
    return node.op == "call_function" and "index_put_" in str(node.target)


def alias_result(node: Node) -> None:
    """Give the result of an in-place write, and the views of it, the memory of the buffer that was written."""
    buffer = node.args[0]
    own_spec, buffer_spec = node.meta["spec"], buffer.meta["spec"]
    node.meta["spec"] = buffer_spec
    for user in node.users:
        spec = user.meta.get("spec")
        if user.op == "output":  # where the result stands for the buffer's new value, and would be reserved for it
            user.meta["spec"] = [buffer_spec if item is own_spec else item for item in spec]
        elif getattr(spec, "_base", None) is own_spec:
            spec._base = buffer_spec


def planned_bytes(program) -> int:
    """Bytes that the largest method's arenas take, caches included; arenas are shared between methods."""
    arenas = [list(plan.non_const_buffer_sizes) for plan in program.execution_plan]
    return sum(max(sizes) for sizes in zip(*arenas, strict=True))
