"""Which XNNPACK partitioner lowers a method, and why most need only one of its rewriting passes.

XNNPACK's preprocessing runs 17 passes over every delegate, each of which traces the delegate again: with the 147
delegates of an 18-layer model that is most of an export. Only programs with convolutions need them. For the others
the backend's own `dqlinear_partitioner` specification keeps the one pass that matters here (matrix products with a
bias become linear layers); clones are avoided by lowering without dim-order operators.
"""

from __future__ import annotations

from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.partitioner import DelegationSpec

from exporter.trace.trace import ExportedProgram

_LINEAR_PASS_ONLY = CompileSpec("dqlinear_partitioner", b"")


def partitioner_for(program: ExportedProgram) -> XnnpackPartitioner:
    """The partitioner of one traced method."""
    partitioner = XnnpackPartitioner()
    if not has_convolution(program):
        backend = partitioner.delegation_spec.backend_id
        partitioner.delegation_spec = DelegationSpec(backend, [_LINEAR_PASS_ONLY])
    return partitioner


def has_convolution(program: ExportedProgram) -> bool:
    """Whether a method convolves: such delegates are rewritten to two dimensions and another layout."""
    return any("conv" in str(node.target) for node in program.graph.nodes if node.op == "call_function")
