"""Python source of graph modules is written only when someone calls it.

Lowering edits graphs thousands of times, and PyTorch writes the whole graph out as Python after every edit: for a
30-layer model that was a fifth of an export. The passes interpret graphs and never call that code.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from torch.fx import GraphModule

_recompile = GraphModule.recompile


@contextmanager
def lazy_graph_code() -> Iterator[None]:
    """Inside, a graph module that is edited makes its code when it is called or printed."""
    with (
        patch.object(GraphModule, "recompile", _put_off),
        patch.object(GraphModule, "code", property(_code)),
        patch.object(GraphModule, "__str__", _name),
    ):
        yield


def _put_off(module: GraphModule) -> None:
    codegen = module._graph._codegen
    if hasattr(codegen, "pytree_info"):
        module._in_spec = codegen.pytree_info.in_spec
        module._out_spec = codegen.pytree_info.out_spec
    module.__dict__.pop("_code", None)
    type(module).forward = _write_and_call  # each graph module has a class of its own


def _write_and_call(module: GraphModule, *args, **kwargs):
    _recompile(module)
    return module(*args, **kwargs)


def _code(module: GraphModule) -> str:
    if "_code" not in module.__dict__:
        _recompile(module)
    return module._code


def _name(module: GraphModule) -> str:
    """Log messages that nobody sees print whole graphs."""
    return f"{type(module).__name__}({len(module.graph.nodes)} nodes)"
