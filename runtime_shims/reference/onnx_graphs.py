"""ONNX's own checker over the graphs of a program, with the inference of every shape.

The exporter asks it of every graph it writes, and `run-model verify` of every graph it is given. The checker knows
standard operators only. In a graph that holds any other it goes on, and then drops every contradiction that it finds.
So a graph with operators of another domain is checked a second time without them: what they make is given, with the
types and shapes that the graph states.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from runtime_shims.contract.bundle_reader import Bundle
from runtime_shims.contract.manifest import ProgramEntry
from runtime_shims.contract.onnx_names import method_path

if TYPE_CHECKING:
    import onnx


def graph_fault(path: Path) -> str | None:
    """What the checker says of a graph file, in one line; None when it has nothing to say."""
    import onnx

    try:
        onnx.checker.check_model(str(path), full_check=True)
        known = standard_part(path)
        if known is not None:
            onnx.checker.check_model(known, full_check=True)
    except Exception as error:  # the checker and shape inference raise types of their own
        return " ".join(str(error).split())
    return None


def program_graphs(bundle: Bundle, entry: ProgramEntry) -> list[Path]:
    """The graph of every method of an ONNX program."""
    return [bundle.file(method_path(entry.file, method.name)) for method in entry.methods]


def standard_part(path: Path) -> onnx.ModelProto | None:
    """The graph of a file without other operators and without weights; None when there are no such operators.

    Raises:
        ValueError: a result of another operator has no stated type and shape.
    """
    import onnx

    model = onnx.load(str(path), load_external_data=False)
    graph = model.graph
    others = [node for node in graph.node if node.domain]
    if not others:
        return None
    stated = {value.name: value for value in (*graph.value_info, *graph.output)}
    made = {name for node in others for name in node.output}
    unstated = sorted(made - {name for name, value in stated.items() if value.type.tensor_type.HasField("shape")})
    if unstated:
        raise ValueError(f"the graph does not state the shape of {', '.join(unstated)}, which ONNX cannot infer")
    kept = [node for node in graph.node if not node.domain]
    weights = [tensor for tensor in graph.initializer if tensor.data_location == onnx.TensorProto.EXTERNAL]
    inside = [tensor for tensor in graph.initializer if tensor.data_location != onnx.TensorProto.EXTERNAL]
    given = [onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims) for tensor in weights]
    given += [stated[name] for name in sorted(made)]
    _set(graph.node, kept)
    _set(graph.initializer, inside)
    graph.input.extend(given)
    for values in (graph.output, graph.value_info):
        _set(values, [value for value in values if value.name not in made])
    return model


def _set(field: Any, values: list[Any]) -> None:
    del field[:]
    field.extend(values)
