"""Attention over a cache in ONNX's operators: over all slots, or over a copy of the live ones when they are few.

The two are the branches of an `If`. The keys are transposed for the product that reads them, which ONNX Runtime makes
one operator, and a cache is read where it lies.

Shape legend: b rows, K key/value heads, G query heads of each, M = G * T, T step tokens, S slots, D head size.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import onnx_ir as ir
from onnx_ir.tape import Tape
from onnxscript.onnx_opset import opset24

op: Any = opset24


@dataclass(frozen=True)
class Attended:
    """What one attention reads: queries `[b, K, M, D]`, caches, and a mask: of five dimensions when it is grouped."""

    query: ir.Value
    keys: ir.Value
    values: ir.Value
    mask: ir.Value
    is_grouped: bool
    softcap: float | None
    sinks: ir.Value | None


def attend_live(
    query: Any, keys: Any, values: Any, mask: Any, live: Any, few: Any, softcap: float | None, sinks: Any = None
) -> Any:
    """The translation of `fixed_capacity::attend_live`."""
    attended = Attended(query, keys, values, mask, len(mask.shape) == 5, softcap, sinks)
    return op.If(few, then_branch=_branch(attended, live), else_branch=_branch(attended, None))


def _branch(attended: Attended, live: ir.Value | None) -> ir.Graph:
    tape, name = Tape(), "all" if live is None else "live"
    if live is not None:
        attended = replace(
            attended,
            keys=_first(tape, attended.keys, live, axis=2),
            values=_first(tape, attended.values, live, axis=2),
            mask=_first(tape, attended.mask, live, axis=-1),
        )
    result = _attend(tape, attended)
    result.type, result.shape = attended.query.type, _shape(attended)
    made = [value for node in tape.nodes for value in node.outputs]
    for number, value in enumerate(made):
        value.name = f"{attended.query.name}.{name}.{number}"  # names of a graph and its branches are one set
    return ir.Graph((), [result], nodes=tape.nodes, name=name)


def _shape(attended: Attended) -> ir.Shape:
    """`[b, K, M, Dv]`."""
    query, values = attended.query.shape, attended.values.shape
    if query is None or values is None:
        raise ValueError("PyTorch's exporter gives every value a shape, and these have none")
    return ir.Shape([*query[:3], values[3]])


def _attend(tape: Tape, attended: Attended) -> ir.Value:
    transposed = tape.op("Transpose", [attended.keys], {"perm": [0, 1, 3, 2]})
    scores = _cast(tape, tape.op("MatMul", [attended.query, transposed]), attended, ir.DataType.FLOAT)
    if attended.softcap is not None:
        cap = tape.op("Constant", [], {"value": ir.tensor(attended.softcap, ir.DataType.FLOAT)})
        scores = tape.op("Mul", [tape.op("Tanh", [tape.op("Div", [scores, cap])]), cap])
    if not attended.is_grouped:
        weights = _softmax(tape, tape.op("Add", [scores, attended.mask]), attended)
    else:
        together = tape.op("Shape", [scores])
        masked = tape.op("Add", [tape.op("Reshape", [scores, _apart(tape, scores, attended.mask)]), attended.mask])
        weights = tape.op("Reshape", [_softmax(tape, masked, attended), together])
    return tape.op("MatMul", [_cast(tape, weights, attended, attended.query.dtype), attended.values])


def _softmax(tape: Tape, scores: ir.Value, attended: Attended) -> ir.Value:
    """Weights of masked scores `[b, K, T, n]` or `[b, K, G, T, n]`; sinks are one score more."""
    if attended.sinks is None:
        return tape.op("Softmax", [scores], {"axis": -1})
    one = _integers(tape, 1)
    per_head = tape.op("Concat", [tape.op("Shape", [scores], {"start": 1, "end": -2}), one, one], {"axis": 0})
    shape = tape.op("Concat", [tape.op("Shape", [scores], {"end": -1}), one], {"axis": 0})
    sinks = tape.op("Expand", [tape.op("Reshape", [attended.sinks, per_head]), shape])
    weights = tape.op("Softmax", [tape.op("Concat", [scores, sinks], {"axis": -1})], {"axis": -1})
    return tape.op("Slice", [weights, _integers(tape, 0), _integers(tape, -1), _integers(tape, -1)])


def _cast(tape: Tape, value: ir.Value, attended: Attended, dtype: ir.DataType | None) -> ir.Value:
    """Scores and their softmax are float32, and products have the type of the queries: a cast where these differ."""
    if attended.query.dtype == ir.DataType.FLOAT:
        return value
    return tape.op("Cast", [value], {"to": dtype})


def _apart(tape: Tape, scores: ir.Value, mask: ir.Value) -> ir.Value:
    """The sizes of scores whose M is G and T: `[b, K, -1, T, n]`."""
    heads = tape.op("Shape", [scores], {"start": 0, "end": 2})
    rest = tape.op("Shape", [mask], {"start": 3})
    return tape.op("Concat", [heads, _integers(tape, -1), rest], {"axis": 0})


def _first(tape: Tape, source: ir.Value, number: ir.Value, axis: int) -> ir.Value:
    """The first `number` entries along an axis."""
    first = tape.op("Slice", [source, _integers(tape, 0), number, _integers(tape, axis)])
    sizes: list[Any] = list(source.shape or ())
    sizes[axis] = None  # a size that is said to be known is folded into the graph
    first.shape = ir.Shape(sizes)
    return first


def _integers(tape: Tape, *values: int) -> ir.Value:
    return tape.op("Constant", [], {"value_ints": list(values)})
