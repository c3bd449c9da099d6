"""Traced methods -> one ExecuTorch program whose methods share weights and caches."""

from __future__ import annotations

from pathlib import Path

from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge_transform_and_lower

from exporter.lower.executorch_memory import InPlaceMemoryPlanning, planned_bytes
from exporter.lower.executorch_partition import calls_torchao, partitioner_for
from exporter.lower.lazy_graph_code import lazy_graph_code
from exporter.lower.program_file import LoweredProgram
from exporter.trace.trace import ExportedProgram
from runtime_shims.contract.manifest import Attention


def lower_to_executorch(
    programs: dict[str, ExportedProgram], backend: str, attention: Attention, path: Path
) -> LoweredProgram:
    """Lower for `xnnpack` or `portable`, plan memory once for all methods, and write `path`.

    Buffers are matched across methods by name, so the caches written by one method are read by another. The
    reinplace pass serves the core-operator form: one-index `index_put` becomes a write in place.
    """
    partitioners = {name: [partitioner_for(program)] for name, program in programs.items()}
    with lazy_graph_code():
        edge = to_edge_transform_and_lower(
            programs,
            partitioner=partitioners if backend == "xnnpack" else None,
            compile_config=EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=True),
        )
        program = edge.to_executorch(
            ExecutorchBackendConfig(
                memory_planning_pass=InPlaceMemoryPlanning(),
                run_reinplace_pass=attention == "portable",
                do_quant_fusion_and_const_prop=any(map(calls_torchao, programs.values())),
            )
        )
    with path.open("wb") as file:
        program.write_to_file(file)
    planned = planned_bytes(program.executorch_program)
    return LoweredProgram(path, backend, attention, path.stat().st_size, planned)
