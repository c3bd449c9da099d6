"""What must hold for every traced graph; a fault here is a bug of the exporter or an unsupported model.

Checked before lowering, where a graph still says what it does: mutated state is exactly the caches, decoding never
projects the encoder's output again, caches are read in place, and no weight is a constant of its own.
"""

from __future__ import annotations

from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import Node

from exporter.spec.faults import ExportFailed, raise_if_any
from exporter.trace.functional_checks import cache_inputs, functional_faults
from exporter.trace.live_nodes import live_nodes, written_arguments

LARGEST_CONSTANT_BYTES = 1 << 16  # masks and frequency tables; weights are parameters, never constants
_IN_PLACE_READS = ("fixed_capacity.", "aten.index_select", "aten.index_put_", "aten.view", "aten.flatten")


class GraphCheckError(ExportFailed):
    """A traced graph that would lower to something slow, large or wrong; lists every fault."""


def check_graphs(programs: dict[str, ExportedProgram]) -> None:
    """Raise GraphCheckError listing every fault of every method."""
    faults = []
    for name, program in programs.items():
        found = (*state_faults(name, program), *constant_faults(program), *operator_faults(program))
        faults += [f"{name}: {fault}" for fault in found]
    if "encode" in programs:
        faults += projection_faults(programs["encode"], programs["decode"])
    raise_if_any(GraphCheckError, "traced graph", faults)


def state_faults(method: str, program: ExportedProgram) -> list[str]:
    """Mutated buffers must be exactly the caches this method owns, and caches must be used in place only."""
    if cache_inputs(program):
        return functional_faults(program)
    caches = caches_of(program)
    family = {"encode": ".cross_layers.", "draft": None}.get(method, ".self_layers.")
    owned = {name for name in caches if family is not None and family in f".{name}"}
    written = {
        stored_name(program, argument)
        for node in program.graph.nodes
        for argument in written_arguments(node)
        if argument.op == "placeholder"
    }
    faults = [f"writes {name}, which is not a cache of this method" for name in sorted(written - owned)]
    faults += [f"never writes the cache {name}" for name in sorted(owned - written)]
    for placeholder, name in placeholders_of(program, caches):
        users = {str(user.target) for user in placeholder.users}
        strangers = {user for user in users if not user.startswith(_IN_PLACE_READS)}
        faults += [f"copies the cache {name} whole through {operator}" for operator in sorted(strangers)]
    return faults


def constant_faults(program: ExportedProgram) -> list[str]:
    """Constants lifted out of the trace must be small: a large one is a weight stored a second time."""
    return [
        f"holds the constant {name} of {value.nbytes} bytes beside the weights"
        for name, value in program.constants.items()
        if isinstance(value, Tensor) and value.nbytes > LARGEST_CONSTANT_BYTES and name not in caches_of(program)
    ]


def operator_faults(program: ExportedProgram) -> list[str]:
    """Operators that a backend lowers to another meaning: XNNPACK drops the tanh form of `gelu`."""
    return [
        f"calls gelu with approximate={node.kwargs['approximate']!r}, which lowers to another function"
        for node in program.graph.nodes
        if "aten.gelu" in str(node.target) and node.kwargs.get("approximate", "none") != "none"
    ]


def projection_faults(encode: ExportedProgram, decode: ExportedProgram) -> list[str]:
    """Matrices that `encode` uses to fill the cross caches must not be used again by `decode`.

    Those of merged attention make the keys of its own step, too: `decode` may use them, once.
    """
    shared = used_parameters(encode) & used_parameters(decode)
    return [
        f"decode: projects encoder keys or values again with {name}"
        for name in sorted(shared)
        if ".decoder." in f".{name}" and decode.state_dict[name].dim() > 1
        if not is_embedding(decode, name) and not is_for_its_own_step(decode, name)
    ]


def caches_of(program: ExportedProgram) -> set[str]:
    """Fully qualified names of the cache buffers in a program's state."""
    names = program.graph_signature.inputs_to_buffers.values()
    return {name for name in names if name.endswith((".key_cache", ".value_cache"))}


def placeholders_of(program: ExportedProgram, names: set[str]) -> list[tuple[Node, str]]:
    """`(placeholder, buffer name)` of the given buffers."""
    buffers = program.graph_signature.inputs_to_buffers
    return [
        (node, buffers[node.name])
        for node in program.graph.nodes
        if node.op == "placeholder" and buffers.get(node.name) in names
    ]


def stored_name(program: ExportedProgram, node: Node) -> str:
    """The buffer or parameter a placeholder is, by name; the input's own name when it is neither."""
    signature = program.graph_signature
    return signature.inputs_to_buffers.get(node.name) or signature.inputs_to_parameters.get(node.name, node.name)


def used_parameters(program: ExportedProgram) -> set[str]:
    """Names of the parameters that live nodes use."""
    parameters = program.graph_signature.inputs_to_parameters
    return {parameters[node.name] for node in live_nodes(program) if node.name in parameters}


def is_for_its_own_step(decode: ExportedProgram, name: str) -> bool:
    """Whether a parameter belongs to self-attention, and one live node of `decode` uses it."""
    parameters, live = decode.graph_signature.inputs_to_parameters, live_nodes(decode)
    users = [user for node in live if parameters.get(node.name) == name for user in node.users if user in live]
    return ".self_attn." in name and len(users) == 1


def is_embedding(program: ExportedProgram, name: str) -> bool:
    """Whether a parameter is read by an embedding lookup."""
    parameters = program.graph_signature.inputs_to_parameters
    return any(
        "embedding" in str(user.target)
        for node in program.graph.nodes
        if node.op == "placeholder" and parameters.get(node.name) == name
        for user in node.users
    )
