"""What a model's weights cost in every format, known from shapes alone and equal to what is stored."""

from __future__ import annotations

import pytest
import torch
from transformers import PreTrainedModel

from exporter.lower.onnx_packing import IntegerMatrix
from exporter.spec.capacity_plan import CapacityPlan
from exporter.spec.model_spec import ModelSpec
from exporter.spec.recipe import Recipe
from exporter.spec.weight_format import WeightFormat, weight_sizes
from exporter.weights.integers import quantize_matrix
from exporter.weights.layout import WeightLayout, pack_integers
from exporter.weights.quantize import QuantizedMatrix, quantize_model
from tests.support.tiny_models import CASES, build

FORMATS = (WeightFormat(8, 8, 32), WeightFormat(4, 8, 32), WeightFormat(4, 4, 64), WeightFormat(8, 4, 96))


def is_tied(model: PreTrainedModel) -> bool:
    return model.get_output_embeddings().weight is model.get_input_embeddings().weight


def stored_bytes(model: PreTrainedModel) -> int:
    """Bytes of a quantized model: every matrix as it is packed, and what is no matrix in float32."""
    matrices = {id(module): module for module in model.modules() if isinstance(module, QuantizedMatrix)}
    packed = [
        pack_integers(matrix.values, matrix.scales, WeightLayout(*matrix.shape, matrix.bits, matrix.group))
        for matrix in matrices.values()
    ]
    return sum(tensor.nbytes for tensor in (*packed, *model.parameters()))


@pytest.mark.parametrize("name", CASES)
def test_the_bytes_of_quantized_weights_equal_those_that_are_stored(name: str) -> None:
    for weights in FORMATS:
        model = build(name)
        sizes = weight_sizes(model, head_is_tied=is_tied(model))
        quantize_model(model, weights)
        assert sizes.bytes_in(weights) == stored_bytes(model)


@pytest.mark.parametrize(("bits", "group"), [(8, None), (8, 32), (4, 32), (4, 128)])
def test_the_bytes_of_a_matrix_for_onnx_equal_those_that_are_stored(bits: int, group: int | None) -> None:
    features, width = 33, 200
    values, terms = quantize_matrix(torch.randn(features, width), bits, group or width, has_zero=True)
    matrix = IntegerMatrix("w", values.numpy(), terms.float().numpy(), bits, group or width)
    stored = [matrix.transposed() if matrix.is_whole else matrix.groups(), matrix.scales()]
    stored += [matrix.zeros()] if bits == 4 else []
    planned = WeightFormat(bits, bits, group, for_onnx=True).matrix_bytes((features, width), bits)
    assert planned == sum(array.nbytes for array in stored)


@pytest.mark.parametrize("name", CASES)
def test_floats_take_four_bytes_or_two_each(name: str) -> None:
    model = build(name)
    sizes = weight_sizes(model, head_is_tied=is_tied(model))
    count = sum(parameter.numel() for parameter in model.parameters())
    assert sizes.parameter_count == count
    assert sizes.bytes_in(WeightFormat(32, 32, 0)) == 4 * count
    matrices = sum(features * width for features, width in (*sizes.linear, *sizes.embedding))
    assert sizes.bytes_in(WeightFormat(16, 16, 0)) == 4 * count - 2 * matrices


@pytest.mark.parametrize("name", CASES)
def test_a_model_without_memory_has_the_same_sizes(name: str) -> None:
    model = build(name)
    with torch.device("meta"):
        twin = type(model)(model.config)
    assert weight_sizes(twin, head_is_tied=is_tied(twin)) == weight_sizes(model, head_is_tied=is_tied(model))


def test_a_head_that_the_export_does_not_share_counts_on_its_own() -> None:
    model = build("gemma3")
    shared = weight_sizes(model, head_is_tied=True)
    own = weight_sizes(model, head_is_tied=False)
    table = model.get_input_embeddings().weight
    assert own.parameter_count - shared.parameter_count == table.numel()
    assert (len(shared.embedding), len(own.embedding)) == (1, 2)
    assert shared.linear == own.linear


@pytest.mark.parametrize(("bits", "bytes_"), [(8, 64 * 3 * (32 + 2)), (4, 64 * 3 * (16 + 4))])
def test_a_matrix_is_filled_up_to_whole_panels_and_groups(bits: int, bytes_: int) -> None:
    weights = WeightFormat(bits, bits, 32)
    assert weights.matrix_bytes((33, 65), bits) == bytes_ == WeightLayout(33, 65, bits, 32).size_bytes


def plan_of(name: str, **values: object) -> CapacityPlan:
    spec = ModelSpec.from_config(CASES[name].config())
    return CapacityPlan.build(spec, Recipe("m", max_dec=40, **values).resolve(spec))  # type: ignore[arg-type]


def test_a_plan_counts_the_bytes_of_its_format() -> None:
    plain, eight = plan_of("llama"), plan_of("llama", quantize="8da8w")
    four = plan_of("llama", quantize="8da4w")
    least = plan_of("llama", quantize="8da4w", embedding_bits=4)
    assert plain.weights_bytes > eight.weights_bytes > four.weights_bytes > least.weights_bytes
    assert plain.parameter_count == least.parameter_count
    for plan in (plain, eight, four, least):
        assert plan.weights_bytes == plan.weights.bytes_in(WeightFormat.of(plan.recipe))
    assert eight.total_bytes - four.total_bytes == eight.weights_bytes - four.weights_bytes
