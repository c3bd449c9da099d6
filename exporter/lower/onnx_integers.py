"""Products and lookups over matrices in integers, in ONNX's operators and ONNX Runtime's `com.microsoft` ones.

A matrix in groups is multiplied by `MatMulNBits`, which rounds rows to 8 bits by groups as the step runs. One whose
groups are whole features is multiplied by `MatMulInteger`, with rows rounded beside it: standard ONNX. The tracer's
graph holds each as one node of ours (`marked`) over the integers that the quantizer chose; once it is complete, every
such node is written out here, and its weights are packed as the operator reads them. A lookup reads what the product
with a tied head reads.

Shape legend: N output features, C inputs, M rows, G groups.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
from onnx_ir.tape import Tape
from onnxscript import evaluator

from exporter.lower.onnx_packing import IntegerMatrix
from exporter.operator_library import NAMESPACE

MICROSOFT = "com.microsoft"
_ROWS_OF_INTEGERS = 4
"""The accuracy level of MatMulNBits that says: round the other factor to 8 bits, a group of a row at a time."""
_ZERO = 128
"""The byte that stands for zero in rounded rows."""
_SMALLEST_SCALE = 1e-30


def quantized_dense(rows: Any, values: Any, scales: Any, bias: Any, bits: int, group: int) -> Any:
    """The translation of `fixed_capacity::quantized_dense`."""
    return _marked("dense", [rows, values, scales, bias], bits, group)


def quantized_embedding(indices: Any, values: Any, scales: Any, bits: int, group: int) -> Any:
    """The translation of `fixed_capacity::quantized_embedding`."""
    return _marked("embed", [indices, values, scales], bits, group)


def _marked(name: str, inputs: list[Any], bits: int, group: int) -> Any:
    node = ir.node(name, inputs, {"bits": bits, "group": group}, domain=NAMESPACE)
    recorder: Any = evaluator.default()
    recorder.nodes.append(node)
    return node.outputs[0]


def write_out_integers(model: ir.Model) -> None:
    """Replace every marked node, and the weights that only those read."""
    marked = [node for node in model.graph if node.domain == NAMESPACE]
    if not marked:
        return
    writer = _Writer(model.graph)
    for node in marked:
        writer.replace(node)
    for name, value in list(model.graph.initializers.items()):
        if not value.uses():
            del model.graph.initializers[name]
    model.opset_imports.pop(NAMESPACE, None)
    if any(node.domain == MICROSOFT for node in model.graph):
        model.opset_imports[MICROSOFT] = 1


class _Writer:
    """One pass over one graph. A matrix is packed once, and a row is rounded once for all products that read it."""

    def __init__(self, graph: ir.Graph) -> None:
        self.graph, self.tape = graph, Tape()
        self.rounded: dict[ir.Value, tuple[ir.Value, ir.Value]] = {}

    def replace(self, node: ir.Node) -> None:
        matrix = _matrix(node)
        if node.op_type == "dense":
            write = self._product_of_integers if matrix.is_whole else self._product_in_groups
        else:
            write = self._lookup_of_features if matrix.is_whole else self._lookup_in_groups
        self.tape = Tape()
        result, replaced = write(node, matrix), node.outputs[0]
        made = [value for written in self.tape.nodes for value in written.outputs]
        for number, value in enumerate(made):
            value.name = f"{replaced.name}.{number}"
        ir.convenience.replace_nodes_and_values(
            self.graph, node, [node], list(self.tape.nodes), [replaced], [result]
        )

    def _product_in_groups(self, node: ir.Node, matrix: IntegerMatrix) -> ir.Value:
        stored, bias = self._in_groups(matrix, "groups"), _bias(node)
        between = [None] * (4 - len(stored))  # no zero points with 8 bits, and never an order of groups
        inputs = [node.inputs[0], *stored, *([] if bias is None else [*between, bias])]
        attributes = {"N": matrix.features, "K": matrix.width, "bits": matrix.bits, "block_size": matrix.group}
        attributes["accuracy_level"] = _ROWS_OF_INTEGERS
        return self.tape.op("MatMulNBits", inputs, attributes, domain=MICROSOFT)

    def _lookup_in_groups(self, node: ir.Node, matrix: IntegerMatrix) -> ir.Value:
        values, *terms = self._in_groups(matrix, "rows")
        attributes = {"bits": matrix.bits, "block_size": matrix.group, "gather_axis": 0, "quantize_axis": 1}
        inputs = [values, node.inputs[0], *terms]
        found = self.tape.op("GatherBlockQuantized", inputs, attributes, domain=MICROSOFT)
        if matrix.width % matrix.group == 0:
            return found
        filled = matrix.width + -matrix.width % matrix.group
        found.type, found.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape([*_sizes(_given(node)), filled])
        return self.tape.op("Slice", [found, self._integers(0), self._integers(matrix.width), self._integers(-1)])

    def _product_of_integers(self, node: ir.Node, matrix: IntegerMatrix) -> ir.Value:
        op, rows, bias = self.tape.op, _given(node), _bias(node)
        bytes_MC, steps_M1 = self._rounded_rows(rows, matrix.width)
        product = op("MatMulInteger", [bytes_MC, self._transposed(matrix), self._zero()])
        result = op("Mul", [op("DequantizeLinear", [product, self._scales(matrix)], {"axis": 1}), steps_M1])
        if bias is not None:
            result = op("Add", [result, bias])
        if _rank(rows) == 2:
            return result
        lead = op("Shape", [rows], {"start": 0, "end": -1})
        return op("Reshape", [result, op("Concat", [lead, self._integers(matrix.features)], {"axis": 0})])

    def _rounded_rows(self, rows: ir.Value, width: int) -> tuple[ir.Value, ir.Value]:
        """Rows as bytes around 128 `[M, C]`, and what a step of each is worth, float32 `[M, 1]`."""
        if rows not in self.rounded:
            op = self.tape.op
            flat = rows if _rank(rows) == 2 else op("Reshape", [rows, self._integers(-1, width)])
            largest = op("ReduceMax", [op("Abs", [flat]), self._integers(-1)], {"keepdims": 0})
            part = self._constant("one_of_127", lambda: np.float32(1 / 127))
            smallest = self._constant("smallest_step", lambda: np.float32(_SMALLEST_SCALE))
            steps = op("Max", [op("Mul", [largest, part]), smallest])
            zeros = op("Expand", [self._zero(), op("Shape", [steps])])
            self.rounded[rows] = (
                op("QuantizeLinear", [flat, steps, zeros], {"axis": 0}),
                op("Unsqueeze", [steps, self._integers(-1)]),
            )
        return self.rounded[rows]

    def _lookup_of_features(self, node: ir.Node, matrix: IntegerMatrix) -> ir.Value:
        op, indices = self.tape.op, _given(node)
        columns = op("Gather", [self._transposed(matrix), indices], {"axis": 1})
        rows = op("Transpose", [columns], {"perm": [*range(1, _rank(indices) + 1), 0]})
        scales = op("Unsqueeze", [op("Gather", [self._scales(matrix), indices]), self._integers(-1)])
        return op("Mul", [op("Cast", [rows], {"to": ir.DataType.FLOAT}), scales])

    def _in_groups(self, matrix: IntegerMatrix, form: str) -> list[ir.Value]:
        """Values, scales and with 4 bits zero points; the forms `groups` and `rows` have the same bytes."""
        pack = matrix.groups if form == "groups" else matrix.rows
        stored = [self._constant(f"{matrix.name}.{form}", pack), self._scales(matrix)]
        return stored if matrix.bits == 8 else [*stored, self._constant(f"{matrix.name}.zeros", matrix.zeros)]

    def _transposed(self, matrix: IntegerMatrix) -> ir.Value:
        return self._constant(f"{matrix.name}.transposed", matrix.transposed)

    def _scales(self, matrix: IntegerMatrix) -> ir.Value:
        return self._constant(f"{matrix.name}.scales", matrix.scales)

    def _zero(self) -> ir.Value:
        return self._constant("zero_of_bytes", lambda: np.uint8(_ZERO))

    def _integers(self, *values: int) -> ir.Value:
        return self._constant(f"integers.{'.'.join(map(str, values))}", lambda: np.array(values, np.int64))

    def _constant(self, name: str, make: Callable[[], Any]) -> ir.Value:
        """An initializer of the graph, made at its first use."""
        if name not in self.graph.initializers:
            content = np.asarray(make())
            tensor, shape = ir.tensor(content, name=name), ir.Shape(content.shape)
            value = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=shape, const_value=tensor)
            self.graph.register_initializer(value)
        return self.graph.initializers[name]


def _matrix(node: ir.Node) -> IntegerMatrix:
    """The matrix of a marked node, whose values and scales are initializers."""
    values, scales = (_given(node, place) for place in (1, 2))
    if values.name is None or values.const_value is None or scales.const_value is None:
        raise ValueError(f"{node.op_type} reads integers that are no weights of the model")
    bits, group = (node.attributes[name].as_int() for name in ("bits", "group"))
    terms = scales.const_value.numpy().astype(np.float32)
    return IntegerMatrix(values.name, values.const_value.numpy(), terms, bits, group)


def _given(node: ir.Node, place: int = 0) -> ir.Value:
    value = node.inputs[place]
    if value is None:
        raise ValueError(f"{node.op_type} lacks its input {place}")
    return value


def _bias(node: ir.Node) -> ir.Value | None:
    return node.inputs[3] if len(node.inputs) > 3 else None


def _rank(value: ir.Value) -> int:
    return len(_sizes(value))


def _sizes(value: ir.Value) -> ir.Shape:
    if value.shape is None:
        raise ValueError("PyTorch's exporter gives every value a shape, and this one has none")
    return value.shape
