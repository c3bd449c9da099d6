"""Exporting a module, and which axes of its inputs may vary."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export

from .live_nodes import drop_dead_nodes
from .methods import Axis, MethodInput
from .shared_nodes import share_equal_nodes


def export_clean(module: nn.Module, samples: tuple[Any, ...], shapes: tuple[Any, ...]) -> ExportedProgram:
    """Export a module, without dead code or work done twice.

    Non-strict: the model runs as Python, its hooks and registered attention included.
    """
    with torch.no_grad():
        program = export(module, samples, dynamic_shapes=shapes, strict=False)
    drop_dead_nodes(program)
    share_equal_nodes(program)
    return program


def dynamic_axes(tensor: MethodInput, dims: dict[str, Dim]) -> dict[int, Dim]:
    """The axes of an input that may vary; axes of one name share the entry of `dims`."""
    return {
        place: _dim(axis, dims)
        for place, axis in enumerate(tensor.axes)
        if axis.name is not None and axis.is_dynamic
    }


def _dim(axis: Axis, dims: dict[str, Dim]) -> Dim:
    """A size as what it exceeds its minimum less one by: a result may shrink to 1, as only what varies from 1 may."""
    name, more = str(axis.name), axis.minimum - 1
    dim = dims.setdefault(name, Dim(name, min=1, max=axis.maximum - more))
    return dim + more if more else dim
