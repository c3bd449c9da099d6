"""What must hold for a traced graph whose caches are inputs and outputs."""

from __future__ import annotations

from torch.export import ExportedProgram
from torch.fx import Node

from .functional import CACHES

_READ, _WRITE = "fixed_capacity.read_slots", "fixed_capacity.scatter_slots"
_SIZE = "aten.sym_size"
_RUNTIME_READS = "what a runtime that writes in place has changed by then"


def cache_inputs(program: ExportedProgram) -> list[Node]:
    """The placeholders of caches, keys and values in turn; none in a graph whose caches are state."""
    wanted = set(program.graph_signature.user_inputs)
    return [
        node
        for node in program.graph.nodes
        if node.op == "placeholder" and node.name in wanted and node.name.startswith(f"{CACHES}_")
    ]


def functional_faults(program: ExportedProgram) -> list[str]:
    """Every cache that is written is written once and returned, and nothing but that write reads what it was before."""
    faults = []
    returned = {node for node in program.graph.output_node().all_input_nodes if _is(node, _WRITE)}
    for cache in cache_inputs(program):
        writes = [user for user in cache.users if _is(user, _WRITE)]
        if len(writes) > 1:
            faults.append(f"writes the cache {cache.name} {len(writes)} times")
        if not writes:
            continue
        if writes[0] not in returned:
            faults.append(f"does not return the cache {cache.name} that it writes")
        strangers = [user for user in cache.users if not any(_is(user, name) for name in (_READ, _WRITE, _SIZE))]
        faults += [f"reads the cache {cache.name} through {user.target}, {_RUNTIME_READS}" for user in strangers]
        returned.discard(writes[0])
    faults += [f"returns {node.name}, which is no write to a cache" for node in returned]
    return faults


def _is(node: Node, operator: str) -> bool:
    return str(node.target).startswith(operator)
