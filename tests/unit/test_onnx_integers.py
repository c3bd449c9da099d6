"""Products and lookups in integers, as ONNX Runtime computes them, against the operators that they stand for.

Shape legend: N output features, C inputs, T tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch
from torch import Tensor

from exporter.lower import onnx as lowering
from exporter.lower.onnx_integers import MICROSOFT, write_out_integers
from exporter.operator_library import NAMESPACE
from exporter.weights.integers import quantize_matrix
from exporter.weights.operators import quantized_dense, quantized_embedding
from runtime_shims.reference.onnx_sessions import load_runtime

TOKENS = 3
SHAPES = [(64, 32, 32), (37, 96, 32), (64, 20, 32), (40, 160, 128)]
"""Features, width and group; widths that no group divides are filled up."""


@dataclass(frozen=True)
class Stored:
    """One matrix, the graph over it, and that graph as a session runs it."""

    values: Tensor
    scales: Tensor
    bias: Tensor | None
    bits: int
    group: int
    model: onnx.ModelProto
    run: Callable

    @classmethod
    def of(cls, features: int, width: int, bits: int, group: int, biased: bool = True) -> Stored:
        generator = torch.Generator().manual_seed(features)
        values, scales = quantize_matrix(torch.randn(features, width, generator=generator), bits, group, has_zero=True)
        bias = torch.randn(features, generator=generator) if biased else None
        model = graph_of(values, scales, bias, bits, group)
        onnx.checker.check_model(model, full_check=True)
        session = load_runtime().InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        return cls(values, scales, bias, bits, group, model, partial(session.run, None))

    def both(self, rows: Tensor, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Product and lookup as the graph has them."""
        dense, found = self.run({"rows": rows.numpy(), "indices": indices.numpy()})
        return torch.from_numpy(dense), torch.from_numpy(found)


def graph_of(values: Tensor, scales: Tensor, bias: Tensor | None, bits: int, group: int) -> onnx.ModelProto:
    """A product of rows `[b, T, C]` and a lookup, over one matrix."""
    features, width = values.shape
    stored = [initializer("w.values", values), initializer("w.scales", scales)]
    if bias is not None:
        stored.append(initializer("b", bias))
    rows, indices = given("rows", ir.DataType.FLOAT, width), given("indices", ir.DataType.INT64)
    attributes = {"bits": bits, "group": group}
    dense = ir.node("dense", [rows, *stored], attributes, domain=NAMESPACE)
    embed = ir.node("embed", [indices, *stored[:2]], attributes, domain=NAMESPACE)
    outputs = []
    for node, size in ((dense, features), (embed, width)):
        (output,) = node.outputs
        output.name, output.type = f"{node.op_type}.out", ir.TensorType(ir.DataType.FLOAT)
        output.shape = ir.Shape(["b", TOKENS, size])
        outputs.append(output)
    opsets = {"": 24, NAMESPACE: 1}
    nodes = [dense, embed]
    graph = ir.Graph([rows, indices], outputs, nodes=nodes, initializers=stored, opset_imports=opsets, name="decode")
    model = ir.Model(graph, ir_version=11)
    write_out_integers(model)
    return ir.to_proto(model)


def given(name: str, dtype: ir.DataType, *width: int) -> ir.Value:
    return ir.Value(name=name, type=ir.TensorType(dtype), shape=ir.Shape(["b", TOKENS, *width]))


def initializer(name: str, tensor: Tensor) -> ir.Value:
    held = ir.tensor(tensor, name=name)
    return ir.Value(name=name, type=ir.TensorType(held.dtype), shape=held.shape, const_value=held)


def rows_of(width: int, rows: int = 2) -> Tensor:
    """Rows of very different size."""
    drawn = torch.randn(rows, TOKENS, width, generator=torch.Generator().manual_seed(width))
    return drawn * torch.tensor([1e-4, 1.0, 300.0])[:, None]


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["features", "8 bits in groups", "4 bits in groups"])
def test_products_and_lookups_equal_the_operators(kind: str, shape: tuple[int, int, int], biased: bool) -> None:
    features, width, group = shape
    stored = Stored.of(features, width, 4 if "4" in kind else 8, width if kind == "features" else group, biased)
    rows, indices = rows_of(width), torch.randint(0, features, (2, TOKENS))
    dense, found = stored.both(rows, indices)
    matrix = (stored.values, stored.scales)
    wanted = quantized_dense(rows, *matrix, stored.bias, stored.bits, stored.group)
    size = wanted.abs().amax(-1, keepdim=True)
    assert float(((dense - wanted).abs() / size).max()) < 1e-5
    torch.testing.assert_close(found, quantized_embedding(indices, *matrix, stored.bits, stored.group))


@pytest.mark.parametrize("bits", [8, 4])
def test_rows_do_not_know_of_each_other(bits: int) -> None:
    """What other rows of a batch hold, padding of any size too, changes no bit of a row's answer."""
    stored = Stored.of(40, 64, bits, 64 if bits == 8 else 32)
    rows, indices = rows_of(64, 5), torch.zeros(5, TOKENS, dtype=torch.int64)
    together = stored.both(rows, indices)[0]
    rows[1:] = 1e4
    assert torch.equal(stored.both(rows, indices)[0][0], together[0])


@pytest.mark.parametrize("bad", [torch.inf, -torch.inf])
def test_a_row_with_infinity_gives_no_finite_product(bad: float) -> None:
    stored = Stored.of(40, 64, 8, 64)
    rows = rows_of(64)
    rows[1, 2, 7] = bad
    dense = stored.both(rows, torch.zeros(2, TOKENS, dtype=torch.int64))[0]
    assert not dense[1, 2].isfinite().any()
    assert dense[0].isfinite().all()


def test_rows_of_zeros_give_the_bias() -> None:
    for bits, group in ((8, 64), (8, 32), (4, 32)):
        stored = Stored.of(40, 64, bits, group)
        dense = stored.both(torch.zeros(2, TOKENS, 64), torch.zeros(2, TOKENS, dtype=torch.int64))[0]
        assert stored.bias is not None
        assert torch.equal(dense[0, 0], stored.bias)


def test_whole_features_take_standard_operators_and_groups_those_of_onnx_runtime() -> None:
    for group, domains in ((64, {""}), (32, {"", MICROSOFT})):
        model = Stored.of(40, 64, 8, group).model
        assert {opset.domain for opset in model.opset_import} == domains
        assert {node.domain for node in model.graph.node} <= domains
        assert {node.op_type for node in model.graph.node} & {"MatMulInteger", "MatMulNBits"}


def test_the_checker_infers_the_shapes_around_operators_that_it_does_not_know(tmp_path: Path) -> None:
    model = Stored.of(40, 20, 4, 32).model
    for last, fits in ((40, True), (41, False)):
        changed = onnx.ModelProto()
        changed.CopyFrom(model)
        changed.graph.node.append(onnx.helper.make_node("Neg", ["dense.out"], ["negative"]))
        shape = ["b", TOKENS, last]
        changed.graph.output.append(onnx.helper.make_tensor_value_info("negative", onnx.TensorProto.FLOAT, shape))
        onnx.save(changed, str(tmp_path / "decode.onnx"))
        onnx.checker.check_model(str(tmp_path / "decode.onnx"), full_check=True)  # says nothing, whatever is wrong
        if fits:
            lowering._check(tmp_path / "decode.onnx")
        else:
            with pytest.raises(lowering.OnnxCheckError, match=r"^decode\.onnx: .*40.*41"):
                lowering._check(tmp_path / "decode.onnx")


def test_a_result_that_onnx_cannot_infer_must_state_its_shape(tmp_path: Path) -> None:
    model = Stored.of(40, 20, 4, 32).model
    del model.graph.value_info[:]
    onnx.save(model, str(tmp_path / "decode.onnx"))
    with pytest.raises(lowering.OnnxCheckError, match=r"does not state the shape of embed\.out\.0, which ONNX"):
        lowering._check(tmp_path / "decode.onnx")


def test_a_lookup_reads_the_bytes_of_the_product() -> None:
    """Of whole features the initializer is one; in groups there are two shapes of the same bytes, stored once."""
    model = Stored.of(40, 64, 8, 64).model
    assert sum(np.prod(tensor.dims) >= 40 * 64 for tensor in model.graph.initializer) == 1
    model = Stored.of(40, 64, 4, 32).model
    large = [tensor for tensor in model.graph.initializer if np.prod(tensor.dims) == 40 * 64 / 2]
    assert [list(tensor.dims) for tensor in large] == [[40, 2, 16], [40, 32]]
    assert len({tensor.raw_data for tensor in large}) == 1


def test_the_tracers_nodes_and_integers_are_gone() -> None:
    model = Stored.of(40, 64, 4, 32).model
    assert NAMESPACE not in {opset.domain for opset in model.opset_import}
    names = {tensor.name for tensor in model.graph.initializer}
    assert names == {"w.values.groups", "w.values.rows", "w.values.scales", "w.values.zeros", "b"}
