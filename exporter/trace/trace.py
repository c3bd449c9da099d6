"""Trace the methods of a model with bounded dynamic dimensions."""

from __future__ import annotations

from torch import nn
from torch.export import Dim
from torch.export import ExportedProgram as ExportedProgram
from torch.export.graph_signature import InputKind as InputKind  # for lowering, which adds constants

from .clean_export import dynamic_axes, export_clean
from .functional import has_functional_caches, trace_functional
from .methods import Method


def trace_method(module: nn.Module, method: Method) -> ExportedProgram:
    """Export one method; its caches are state, or inputs and outputs where its spelling asks for it."""
    if has_functional_caches(module):
        return trace_functional(module, method)
    dims: dict[str, Dim] = {}
    samples = tuple(tensor.sample() for tensor in method.inputs)
    return export_clean(module, samples, tuple(dynamic_axes(tensor, dims) for tensor in method.inputs))


def trace_methods(modules: dict[str, nn.Module], methods: tuple[Method, ...]) -> dict[str, ExportedProgram]:
    """Method name -> exported program."""
    return {method.name: trace_method(modules[method.name], method) for method in methods}
