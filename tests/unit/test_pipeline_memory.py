"""An in-place result stands for the buffer it wrote: in views of it, and among the outputs."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

from torch.fx import Graph, Node

from exporter.lower.executorch_memory import alias_result, is_in_place_write


def spec(name: str, base: object = None) -> SimpleNamespace:
    """A stand-in for a tensor spec: only its identity and its base matter."""
    return SimpleNamespace(name=name, _base=base)


def step_graph() -> tuple[Node, Node, Node, Node, Node]:
    """`cache`, its in-place write, a view of the result, an unrelated user of it, and the output."""

    def index_put_(cache: object, update: object) -> object:
        return cache

    graph = Graph()
    cache = graph.placeholder("cache")
    write = graph.call_function(index_put_, (cache, cache))
    view = graph.call_function(len, (write,))
    other = graph.call_function(abs, (write,))
    output = graph.output((write, other))
    cache.meta["spec"], write.meta["spec"], other.meta["spec"] = spec("cache"), spec("write"), spec("other")
    view.meta["spec"] = spec("view", base=write.meta["spec"])
    output.meta["spec"] = [write.meta["spec"], other.meta["spec"]]
    return cache, write, view, other, output


def test_the_write_is_recognised_and_nothing_else_is() -> None:
    cache, write, view, other, _ = step_graph()
    assert [is_in_place_write(node) for node in (cache, write, view, other)] == [False, True, False, False]


def test_result_views_and_output_take_the_memory_of_the_buffer() -> None:
    cache, write, view, other, output = step_graph()
    alias_result(write)
    buffer = cache.meta["spec"]
    assert write.meta["spec"] is buffer
    assert view.meta["spec"]._base is buffer
    assert output.meta["spec"] == [buffer, other.meta["spec"]]
    assert other.meta["spec"].name == "other"


def test_no_cache_is_reserved_twice(llama_bundle: Path) -> None:
    """A second reservation of the caches alone would take as much again; the activations here take less."""
    memory = json.loads((llama_bundle / "manifest.json").read_text())["memory"]
    assert memory["activation_bytes"] < memory["cache_bytes"]
