"""Traced functional methods -> an ONNX program: a graph for each method and one file of weights for all."""

from __future__ import annotations

from pathlib import Path

import onnx_ir as ir
import torch

from exporter.lower.onnx_integers import write_out_integers
from exporter.lower.onnx_metadata import describe
from exporter.lower.onnx_translations import translations
from exporter.lower.onnx_weights import store_weights
from exporter.lower.program_file import LoweredProgram
from exporter.spec.capacity_plan import CapacityPlan
from exporter.spec.faults import ExportFailed
from exporter.trace.methods import Method
from exporter.trace.trace import ExportedProgram
from runtime_shims.contract.onnx_names import (
    OPSET,
    WEIGHTS_NAME,
    method_file,
    past_names,
    present_names,
    read_caches,
    written_caches,
)
from runtime_shims.reference.onnx_graphs import graph_fault

_WRAPPERS = "method.root.model."
"""What the modules around a model put before the names of its weights."""


class OnnxCheckError(ExportFailed):
    """A graph that ONNX's own checker refuses: a bug of the exporter."""


def lower_to_onnx(
    programs: dict[str, ExportedProgram], methods: tuple[Method, ...], plan: CapacityPlan, directory: Path
) -> LoweredProgram:
    """Write `<method>.onnx` for every method, and their weights, to `directory`.

    What is planned are the caches and the logits, which a session holds; the runtime takes the rest as it needs it.
    """
    models = {method.name: _model(programs[method.name], method, plan) for method in methods}
    store_weights(models.values(), directory, WEIGHTS_NAME)
    size = (directory / WEIGHTS_NAME).stat().st_size
    for name, model in models.items():
        path = directory / method_file(name)
        ir.save(model, path)
        _check(path)
        size += path.stat().st_size
    planned = plan.cache_bytes + plan.logits_bytes
    return LoweredProgram(directory / method_file("decode"), "onnx", "portable", size, planned)


def _model(program: ExportedProgram, method: Method, plan: CapacityPlan) -> ir.Model:
    entries = plan.entries()
    inputs = [tensor.name for tensor in method.inputs] + past_names(read_caches(method.name, entries), plan.kind)
    results = [tensor.name for tensor in method.outputs]
    outputs = [*results, *present_names(written_caches(method.name, entries), plan.kind)]
    exported = torch.onnx.export(
        program,
        opset_version=OPSET,
        custom_translation_table=translations(),
        input_names=inputs,
        output_names=outputs,
        verbose=False,
    )
    model = exported.model
    exported.rename_axes(_axis_names(model, method))
    write_out_integers(model)
    for name, value in list(model.graph.initializers.items()):
        value.name = name.removeprefix(_WRAPPERS)
    describe(model, method.name, plan)
    return model


def _axis_names(model: ir.Model, method: Method) -> dict[str | ir.SymbolicDim, str]:
    """The tracer's names of the dynamic axes -> the manifest's.

    Caches and results have the batch of the call first. The tracer gives it one name, except where it is at most 2.
    """
    names: dict[str | ir.SymbolicDim, str] = {}
    for value, tensor in zip(model.graph.inputs, method.inputs, strict=False):
        for dim, axis in zip(value.shape or (), tensor.axes, strict=True):
            if axis.is_dynamic and axis.name is not None and isinstance(dim, ir.SymbolicDim):
                names[dim] = axis.name
    batch = method.inputs[0].axes[0]
    if batch.is_dynamic and batch.name is not None:
        for value in [*model.graph.inputs, *model.graph.outputs]:
            first = (value.shape or (None,))[0]
            if isinstance(first, ir.SymbolicDim):
                names[first] = batch.name
    return names


def _check(path: Path) -> None:
    """ONNX's checker, with the inference of every shape.

    Raises OnnxCheckError with what it says.
    """
    fault = graph_fault(path)
    if fault is not None:
        raise OnnxCheckError(path.name, [fault])
