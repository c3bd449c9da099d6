"""Which XNNPACK partitioner lowers a method: ExecuTorch's own rules of what XNNPACK takes, grouped in linear time.

Preprocessing. XNNPACK's 17 rewriting passes each trace a delegate again. Only programs with convolutions need them.
For the others the backend's own `dqlinear_partitioner` specification keeps the one pass that matters here (matrix
products with a bias become linear layers); clones are avoided by lowering without dim-order operators.

Grouping. Nodes are grouped by level: how many times the longest path to a node has left XNNPACK. A path between two
nodes of one level never leaves it, so no group can wait for itself, and no partition has more groups on a path. The
partitioner's own grouping tries all pairs of nodes. What is turned for a write to a cross cache is a group for each
write.
"""

from __future__ import annotations

from collections import defaultdict

from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.partitioner import DelegationSpec
from torch.fx import Graph, Node
from torch.fx.passes.infra.partitioner import Partition

from exporter.lower.executorch_forms import in_xnnpack_forms
from exporter.trace.trace import ExportedProgram

_LINEAR_PASS_ONLY = CompileSpec("dqlinear_partitioner", b"")


class LevelPartitioner(XnnpackPartitioner):
    """XNNPACK's rules, with partitions by level."""

    def transform_for_pre_decomposition(self, program: ExportedProgram) -> ExportedProgram:
        """The program in operators that XNNPACK takes."""
        return in_xnnpack_forms(super().transform_for_pre_decomposition(program))

    def ops_to_not_decompose(self, program: ExportedProgram):
        """Operators that XNNPACK takes whole. Without a filter by node, lowering needs one decomposition less.

        An operator some of whose calls XNNPACK refuses is decomposed everywhere.
        """
        operators, takes = super().ops_to_not_decompose(program)
        refused = {node.target for node in program.graph.nodes if node.target in operators and not takes(node)}
        return [operator for operator in operators if operator not in refused], None

    def generate_partitions(self, program: ExportedProgram) -> list[Partition]:
        """Supported nodes grouped by level."""
        matched = {node for group in self.get_matched_nodes_from_configs(program) for node in group}
        supported = {node for node in matched if not reshapes_beyond_one_dynamic_size(node)}
        levels = by_level(program.graph, supported).values()
        groups = [group for level in levels for group in by_cross_write(level)]
        return [Partition(id=number, nodes=group) for number, group in enumerate(groups)]


def reshapes_beyond_one_dynamic_size(node: Node) -> bool:
    """`unsqueeze` to a shape of two sizes or more that vary: XNNPACK's rules take it, its serializer then fails."""
    if "unsqueeze_copy" not in str(node.target):
        return False
    return sum(not isinstance(size, int) for size in node.meta["val"].shape) > 1


def by_level(graph: Graph, supported: set[Node]) -> dict[int, list[Node]]:
    """Supported nodes by how many times the longest path to them goes from a supported node to another one."""
    level: dict[Node, int] = {}
    groups: dict[int, list[Node]] = defaultdict(list)
    for node in graph.nodes:
        inside = node in supported
        level[node] = max(
            (level[source] + (source in supported and not inside) for source in node.all_input_nodes), default=0
        )
        if inside:
            groups[level[node]].append(node)
    return groups


def by_cross_write(nodes: list[Node]) -> list[list[Node]]:
    """The nodes of a level, those apart that turn keys and values for one write to a cross cache.

    Nothing holds the layers of `encode` together here but their level. In one group, the keys and values of all of them
    would be kept until the last is projected, twice: as they come out of the projections and as they are written.
    """
    writes: dict[Node, Node | None] = {}
    for node in reversed(nodes):
        readers = {writes.get(user, user if writes_cross(user) else None) for user in node.users}
        writes[node] = readers.pop() if len(readers) == 1 else None
    groups: dict[Node | None, list[Node]] = defaultdict(list)
    for node in nodes:
        groups[writes[node]].append(node)
    return list(groups.values())


def writes_cross(node: Node) -> bool:
    """A write to a cross cache, which at this point is an argument of the operator that stands for writes."""
    return "auto_functionalized" in str(node.target) and "write_cross" in str(node.args[0])


def partitioner_for(program: ExportedProgram) -> XnnpackPartitioner:
    """The partitioner of one traced method.

    Quantized layers are patterns of several nodes, which the backend's own grouping keeps whole.
    """
    if calls_torchao(program):
        return XnnpackPartitioner()
    partitioner = LevelPartitioner()
    if not has_convolution(program):
        backend = partitioner.delegation_spec.backend_id
        partitioner.delegation_spec = DelegationSpec(backend, [_LINEAR_PASS_ONLY])
    return partitioner


def calls_torchao(program: ExportedProgram) -> bool:
    """Whether a method holds quantized weights in torchao's form."""
    return any("torchao" in str(node.target) for node in program.graph.nodes if node.op == "call_function")


def has_convolution(program: ExportedProgram) -> bool:
    """Whether a method convolves: such delegates are rewritten to two dimensions and another layout."""
    return any("conv" in str(node.target) for node in program.graph.nodes if node.op == "call_function")
