"""The operators over stored weights in eager PyTorch, and the C++ kernels beside them; `test_weight_layout.py` draws
random shapes for both.

Shape legend: N output features, C inputs, G groups, R rows.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional

from exporter.weights.layout import TERMS, WeightLayout, pack_floats, pack_integers
from exporter.weights.operators import operators, quantize_groups, quantized_dense, quantized_embedding
from runtime_shims import native, native_linear

needs_library = pytest.mark.skipif(
    native.operator_library_path() is None, reason="the C++ operator library is not installed"
)


def matrix(features: int, width: int, bits: int, group: int) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    low, high = (0, 16) if bits == 4 else (-128, 128)
    values = torch.randint(low, high, (features, width), dtype=torch.int8)
    return values, torch.randn(features, -(-width // group), TERMS[bits]).bfloat16()


def test_rows_are_rounded_to_the_nearest_of_255_values_per_group() -> None:
    rows = torch.randn(5, 70)
    integers, scales = quantize_groups(rows, 32)
    assert integers.shape == (5, 3, 32)
    assert integers.abs().max() == 127
    assert torch.equal(integers, integers.round())
    rounded = (integers * scales).flatten(1)[:, :70]
    steps = scales.expand(5, 3, 32).flatten(1)[:, :70]
    assert ((rounded - rows).abs() <= 0.5001 * steps).all()
    assert not integers[:, 2, 6:].any()  # 70 inputs fill two groups and 6 values of the third


def test_a_group_of_zeros_stays_zero() -> None:
    rows = torch.zeros(1, 64)
    rows[0, 40] = -3.0
    integers, scales = quantize_groups(rows, 32)
    assert not integers[0, 0].any()
    assert scales[0, 0] == 0.0
    assert integers[0, 1, 8] == -127


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_row_that_is_not_finite_gives_no_finite_product(bad: float) -> None:
    values, scales = matrix(5, 64, 8, 32)
    rows = torch.randn(1, 64)
    rows[0, 10] = bad
    assert not quantized_dense(rows, values, scales, None, 8, 32).isfinite().any()


@needs_library
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_row_that_is_not_finite_gives_no_finite_product_in_the_kernel(bad: float) -> None:
    values, scales = matrix(5, 64, 8, 32)
    rows = torch.randn(1, 64)
    rows[0, 10] = bad
    packed = pack_integers(values, scales, WeightLayout(5, 64, 8, 32))
    quantized = native_linear.quantize_rows(rows, 32)
    got = native_linear.linear(quantized, packed, None, native_linear.Format(64, 5, 8, 32))
    assert not got.isfinite().any()


@pytest.mark.parametrize("bits", [8, 4])
def test_what_a_model_calls_equals_what_its_program_calls(bits: int) -> None:
    values, scales = matrix(40, 100, bits, 32)
    packed = pack_integers(values, scales, WeightLayout(40, 100, bits, 32))
    ops, rows, bias = operators(), torch.randn(2, 3, 100), torch.randn(40)
    traced = ops.quantized_dense(rows, values, scales, bias, bits, 32)
    lowered = ops.dense(ops.quantize_rows(rows, 32), packed, bias, 100, 40, bits, 32)
    torch.testing.assert_close(lowered, traced, rtol=1e-6, atol=1e-5)
    indices = torch.tensor([[3, 39], [0, 3]])
    found = quantized_embedding(indices, values, scales, bits, 32)
    assert found.shape == (2, 2, 100)
    assert torch.equal(ops.embed(indices, packed, 100, 40, bits, 32), found)


@pytest.mark.parametrize("bits", [32, 16])
def test_stored_floats_multiply_and_embed_as_the_matrix_does(bits: int) -> None:
    weight_NC = torch.randn(40, 50).half().float()
    packed, rows, bias = pack_floats(weight_NC, bits), torch.randn(2, 3, 50), torch.randn(40)
    got = operators().dense(rows, packed, bias, 50, 40, bits, 0)
    torch.testing.assert_close(got, functional.linear(rows, weight_NC, bias))
    assert torch.equal(operators().embed(torch.tensor([7]), packed, 50, 40, bits, 0), weight_NC[7:8])


@pytest.mark.parametrize("bits", [32, 8, 4])
def test_without_memory_the_operators_give_the_same_shapes_and_types(bits: int) -> None:
    group = 32 if bits <= 8 else 0
    layout = WeightLayout(40, 100, bits, group)
    packed = torch.empty(layout.size_bytes, dtype=torch.uint8, device="meta")
    ops, rows = operators(), torch.empty(2, 3, 100, device="meta")
    if group:
        quantized = ops.quantize_rows(rows, group)
        assert (quantized.shape, quantized.dtype) == ((2, 3, layout.row_bytes), torch.uint8)
        rows = quantized
    product = ops.dense(rows, packed, None, 100, 40, bits, group)
    assert (product.shape, product.dtype) == ((2, 3, 40), torch.float32)
    found = ops.embed(torch.empty(2, 3, dtype=torch.int64, device="meta"), packed, 100, 40, bits, group)
    assert (found.shape, found.dtype) == ((2, 3, 100), torch.float32)


@needs_library
@pytest.mark.parametrize(
    ("layout", "rows", "message"),
    [
        (native_linear.Format(64, 5, 8, 48), 1, "multiples of 32"),
        (native_linear.Format(64, 5, 5, 32), 1, "32, 16, 8 or 4 bits"),
        (native_linear.Format(0, 5, 8, 32), 1, "widths and features"),
        (native_linear.Format(64, 6, 8, 32), 1, "bias"),
        (native_linear.Format(32, 5, 8, 32), 1, "weights"),
        (native_linear.Format(64, 5, 8, 32), 2, "inputs"),
    ],
)
def test_a_product_that_does_not_fit_is_refused_and_nothing_is_written(
    layout: native_linear.Format, rows: int, message: str
) -> None:
    values, scales = matrix(5, 64, 8, 32)
    packed, out = pack_integers(values, scales, WeightLayout(5, 64, 8, 32)), torch.full((2, 32), -7.0)
    quantized = native_linear.quantize_rows(torch.randn(1, 64), 32)
    if rows == 2:  # twice the rows that the bytes hold
        quantized = quantized.view(2, -1)
    with pytest.raises(ValueError, match=message):
        native_linear.bind_linear(quantized, packed, torch.zeros(5), out, layout)()
    assert (out == -7.0).all()


@needs_library
@pytest.mark.parametrize("index", [-1, 5, 2**40])
def test_an_index_past_the_embedding_is_refused(index: int) -> None:
    packed = pack_floats(torch.randn(5, 64), 32)
    with pytest.raises(ValueError, match="index is negative or past"):
        native_linear.embed(torch.tensor([0, index]), packed, native_linear.Format(64, 5, 32, 0))


@needs_library
def test_tensors_that_are_not_contiguous_are_refused() -> None:
    packed = pack_floats(torch.randn(5, 64), 32)
    with pytest.raises(ValueError, match="contiguous"):
        native_linear.linear(torch.randn(64, 3).T, packed, None, native_linear.Format(64, 5, 32, 0))
