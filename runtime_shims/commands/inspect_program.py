"""The program part of `inspect`: methods with their tensors and named dimensions."""

from __future__ import annotations

from rich.console import Group
from rich.text import Text

from runtime_shims.commands.tables import titled
from runtime_shims.contract.formatting import format_bytes
from runtime_shims.contract.manifest import Dim, Manifest, MethodEntry, ProgramEntry, TensorEntry


def programs(manifest: Manifest) -> Group:
    """Every program file with its methods."""
    return titled("Programs", *(_program(program) for program in manifest.programs))


def _program(program: ProgramEntry) -> Text:
    needs = ", needs the operator library" if program.operator_library_required else ""
    text = Text.assemble(
        f"{program.file}\n",
        f"{program.format} for {program.backend}, {program.attention} attention{needs}; "
        f"weights {format_bytes(program.weights_bytes)}, plans {format_bytes(program.planned_bytes)}\n",
    )
    for method in program.methods:
        text.append(_method(method))
    bounds = {
        f"{dim.name} {dim.minimum}..{dim.maximum}": None
        for method in program.methods
        for tensor in (*method.inputs, *method.outputs)
        for dim in tensor.dims
        if dim.name is not None
    }
    return text.append(f"  with {', '.join(bounds)}" if bounds else "")


def _method(method: MethodEntry) -> str:
    inputs = ", ".join(map(_tensor, method.inputs))
    outputs = ", ".join(map(_tensor, method.outputs))
    return f"  {method.name}({inputs})\n    -> {outputs}\n"


def _tensor(tensor: TensorEntry) -> str:
    return f"{tensor.name} {tensor.dtype}[{', '.join(map(_dim, tensor.dims))}]"


def _dim(dim: Dim) -> str:
    return dim.name if dim.name is not None else str(dim.maximum)
