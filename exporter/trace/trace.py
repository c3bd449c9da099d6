"""Trace the methods of a model with bounded dynamic dimensions."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export
from torch.export.graph_signature import InputKind as InputKind  # for lowering, which adds constants

from .live_nodes import drop_dead_nodes
from .methods import Method
from .shared_nodes import share_equal_nodes


def trace_method(module: nn.Module, method: Method) -> ExportedProgram:
    """Export one method, without dead code or work done twice.

    Non-strict: the model runs as Python, its hooks and registered attention included.
    """
    samples = tuple(tensor.sample() for tensor in method.inputs)
    dims: dict[str, Dim] = {}
    shapes = tuple(
        {
            place: dims.setdefault(axis.name, Dim(axis.name, min=1, max=axis.maximum))
            for place, axis in enumerate(tensor.axes)
            if axis.name is not None and axis.is_dynamic
        }
        for tensor in method.inputs
    )
    with torch.no_grad():
        program = export(module, samples, dynamic_shapes=shapes, strict=False)
    drop_dead_nodes(program)
    share_equal_nodes(program)
    return program


def trace_methods(modules: dict[str, nn.Module], methods: tuple[Method, ...]) -> dict[str, ExportedProgram]:
    """Method name -> exported program."""
    return {method.name: trace_method(modules[method.name], method) for method in methods}
