"""Integers and scales of a model's matrices: how far they are from the weights, and which modules they replace.

Shape legend: N output features, C inputs, G groups, S inputs in a group.
"""

from __future__ import annotations

from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from exporter.bundle.tolerances import TOLERANCES
from exporter.spec.faults import ExportFailed
from exporter.spec.weight_format import MIXERS, WeightFormat, is_linear, products, word_tables
from exporter.weights.half import compute_in_half
from exporter.weights.integers import quantize_matrix
from exporter.weights.operators import dequantized
from exporter.weights.quantize import (
    QuantizedEmbedding,
    QuantizedLinear,
    QuantizedMatrix,
    keep_integers_only,
    quantize_model,
)
from exporter.weights.special_row import write_out_special_rows
from exporter.weights.torchao_form import quantize_for_xnnpack
from tests.support.tiny_configs import HIDDEN
from tests.support.tiny_models import CASES, build, source, tokens

W8 = WeightFormat(8, 8, 32)
W4 = WeightFormat(4, 4, 32)
MATRICES = st.tuples(st.integers(1, 40), st.integers(1, 130), st.sampled_from([32, 64, 96]), st.integers(0, 2**32 - 1))


def weights(features: int, width: int, seed: int) -> Tensor:
    """Weights [N, C] of very different size per feature, some of them zero."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(features, width, generator=generator) * 10 ** torch.randn(features, 1, generator=generator)
    return drawn * (torch.rand(features, width, generator=generator) > 0.1)


def loss_of(weight_NC: Tensor, values: Tensor, scales: Tensor, group: int) -> Tensor:
    """Squared error [N, G] per group."""
    error = functional.pad(dequantized(values, scales, group) - weight_NC, (0, -weight_NC.shape[1] % group))
    return error.unflatten(1, (-1, group)).square().sum(-1)


@settings(deadline=None)
@given(MATRICES)
def test_8_bits_lose_at_most_half_a_step_of_every_value(drawn: tuple[int, int, int, int]) -> None:
    features, width, group, seed = drawn
    weight_NC = weights(features, width, seed)
    values, scales = quantize_matrix(weight_NC, 8, group)
    assert (values.dtype, scales.dtype) == (torch.int8, torch.bfloat16)
    assert (values.shape, scales.shape) == ((features, width), (features, -(-width // group), 1))
    steps = scales[..., 0].float().repeat_interleave(group, dim=1)[:, :width]
    error = (dequantized(values, scales, group) - weight_NC).abs()
    # The scale is rounded to bfloat16 first: by up to 1/256, which at the end of the range is half a step more.
    assert (error <= steps * torch.where(weight_NC.abs() > 126 * steps, 1.001, 0.501)).all()


@settings(deadline=None)
@given(MATRICES)
def test_4_bits_lose_no_more_than_the_plain_choice_would(drawn: tuple[int, int, int, int]) -> None:
    features, width, group, seed = drawn
    weight_NC = weights(features, width, seed)
    values, scales = quantize_matrix(weight_NC, 4, group)
    assert values.min() >= 0
    assert values.max() <= 15
    grouped = functional.pad(weight_NC, (0, -width % group)).unflatten(1, (-1, group))
    low, high = grouped.amin(-1, keepdim=True), grouped.amax(-1, keepdim=True)
    plain_scales = torch.cat(((high - low) / 15, low), -1).bfloat16()  # the whole range of a group
    steps, minima = plain_scales.float().split(1, -1)
    plain = torch.where(steps == 0, 0.0, (grouped - minima) / steps).round().clamp(0, 15).to(torch.int8)
    best = loss_of(weight_NC, values, scales, group)
    allowed = loss_of(weight_NC, plain.flatten(1)[:, :width], plain_scales, group)
    whole = width // group  # the last group may be filled up with zeros, which count in the choice
    limit = allowed * (1 + 1e-4) + 1e-12 * grouped.square().sum(-1) + 1e-30
    assert (best <= limit)[:, :whole].all()


@settings(deadline=None, max_examples=40)
@given(MATRICES)
def test_4_bits_with_a_zero_have_one_and_lose_no_more_than_the_plain_choice(drawn: tuple[int, int, int, int]) -> None:
    features, width, group, seed = drawn
    weight_NC = weights(features, width, seed)
    values, terms = quantize_matrix(weight_NC, 4, group, has_zero=True)
    scales, minima = terms.split(1, -1)
    zeros = (-minima / scales).round()
    assert torch.equal(-zeros * scales, minima)
    assert 0 <= zeros.min() <= zeros.max() <= 15
    grouped = functional.pad(weight_NC, (0, -width % group)).unflatten(1, (-1, group))
    low, high = grouped.amin(-1, keepdim=True).clamp(max=0), grouped.amax(-1, keepdim=True).clamp(min=0)
    steps = ((high - low) / 15).bfloat16().float().clamp_min(1e-30)
    plain_zeros = (-low / steps).round().clamp(0, 15)
    plain = ((grouped / steps).round() + plain_zeros).clamp(0, 15).to(torch.int8)
    best = loss_of(weight_NC, values, terms, group)
    allowed = loss_of(weight_NC, plain.flatten(1)[:, :width], torch.cat((steps, -plain_zeros * steps), -1), group)
    limit = allowed * (1 + 1e-3) + 1e-5 * grouped.square().sum(-1) + 1e-30
    assert (best <= limit)[:, : width // group].all()


@pytest.mark.parametrize("bits", [8, 4])
def test_groups_of_zeros_become_zeros(bits: int) -> None:
    values, scales = quantize_matrix(torch.zeros(3, 40), bits, 32)
    assert not dequantized(values, scales, 32).any()
    assert scales.float().isfinite().all()


@pytest.mark.parametrize("bits", [8, 4])
def test_many_rows_are_quantized_in_parts_as_each_would_be_alone(bits: int) -> None:
    weight_NC = weights(5000, 33, 0)
    values, scales = quantize_matrix(weight_NC, bits, 32)
    alone_values, alone_scales = quantize_matrix(weight_NC[4990:], bits, 32)
    assert torch.equal(values[4990:], alone_values)
    assert torch.equal(scales[4990:], alone_scales)


def answers(model: PreTrainedModel, name: str) -> Tensor:
    """Logits of every position of one text."""
    text = tokens(1, 12)
    with torch.no_grad():
        if CASES[name].kind == "decoder_only":
            return model(input_ids=text).logits
        given_as = model.get_encoder().main_input_name
        return model(**{given_as: source(name, 1, 9)}, decoder_input_ids=text).logits


@pytest.mark.parametrize("name", CASES)
def test_every_matrix_of_every_family_is_replaced_and_shared_ones_stay_one(name: str) -> None:
    model = build(name)
    head = model.get_output_embeddings()
    lookups = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    words = [*word_tables(model), head]
    tables = [module for module in lookups if any(module.weight is table.weight for table in words)]
    matrices = [module for _, module in products(model)]
    weights = {id(module.weight) for module in tables}  # one, or one for each stack
    shared = id(head.weight) in weights
    quantize_model(model, W4)
    left = [path for path, module in model.named_modules() if is_linear(module)]
    assert bool(left) == (name == "gemma3n")
    assert all(path.endswith(MIXERS) for path in left)
    lookups = [module for module in model.modules() if isinstance(module, QuantizedEmbedding)]
    found = [module for module in model.modules() if isinstance(module, QuantizedLinear)]
    assert (len(lookups), len(found)) == (len(tables), len(matrices))
    assert len({id(module.weight) for module in lookups}) == len(weights)
    assert any(model.get_output_embeddings().weight is module.weight for module in lookups) == shared
    distinct = {id(module.weight) for module in (*lookups, *found)}
    assert len(distinct) == len(matrices) + len(weights) - shared


@pytest.mark.parametrize("name", CASES)
def test_the_operators_compute_what_the_rounded_floats_do(name: str) -> None:
    """Scaled lookups (Gemma, BART), transposed layers (GPT-2) and shared tables (T5) among them."""
    model = build(name)
    quantize_model(model, W8)
    rounded = answers(model, name)
    keep_integers_only(model)
    assert not any(module.rounded_NC for module in model.modules() if isinstance(module, QuantizedMatrix))
    assert torch.equal(answers(model, name), rounded)


@pytest.mark.parametrize("name", CASES)
def test_8_bits_say_nearly_what_floats_say_and_no_rule_of_a_family_is_lost(name: str) -> None:
    want = answers(build(name), name)
    model = build(name)
    quantize_model(model, W8)
    got = answers(model, name)
    correlation = torch.corrcoef(torch.stack([got.flatten(), want.flatten()]))[0, 1]
    assert correlation > 0.97


def test_embedding_and_head_have_bits_of_their_own() -> None:
    model = build("llama")  # its head is not tied
    quantize_model(model, WeightFormat(4, 8, 64))
    assert model.get_input_embeddings().weight.bits == 8
    assert model.get_output_embeddings().weight.bits == 8
    rest = [module.weight for module in model.model.layers.modules() if isinstance(module, QuantizedLinear)]
    assert {(weight.bits, weight.group) for weight in rest} == {(4, 64)}


def test_a_transposed_layer_gives_the_products_of_its_weights() -> None:
    model = build("gpt2")
    layer = model.transformer.h[0].mlp.c_fc
    weight, bias, rows = layer.weight.clone(), layer.bias.clone(), torch.randn(3, layer.weight.shape[0])
    quantize_model(model, W8)
    got = model.transformer.h[0].mlp.c_fc(rows)
    want = rows @ weight + bias
    torch.testing.assert_close(got, want, rtol=0.0, atol=0.03 * float(want.abs().max()))


def test_products_that_layers_write_out_are_quantized_for_xnnpack() -> None:
    model, prompt = build("falcon_40b"), tokens(1, 9)
    want = model(input_ids=prompt).logits
    quantize_for_xnnpack(model, WeightFormat(8, 8))
    difference = float((model(input_ids=prompt).logits - want).abs().max())
    assert 0 < difference < TOLERANCES["8 bits", "xnnpack"].absolute(float(want.abs().max()))
    assert type(model.transformer.h[0].self_attention.dense) is nn.Linear


@pytest.mark.parametrize("name", ["gemma2", "gemma3", "mbart"])
def test_a_scaled_lookup_stays_scaled(name: str) -> None:
    model, stock = build(name), build(name)
    quantize_model(model, W8)
    indices = torch.tensor([[5, 9]])
    want = stock.get_input_embeddings()(indices)
    assert not torch.allclose(want, functional.embedding(indices, stock.get_input_embeddings().weight))
    got = model.get_input_embeddings()(indices)
    torch.testing.assert_close(got, want, rtol=0.0, atol=0.01 * float(want.abs().max()))


class OddEmbedding(nn.Embedding):
    """A lookup that does something of its own."""

    def forward(self, indices: Tensor) -> Tensor:
        return super().forward(indices).tanh()


@pytest.mark.parametrize("form", ["float", "integers", "half"])
def test_a_token_that_an_embedding_keeps_apart_has_its_own_vector_in_every_form(form: str) -> None:
    """T5Gemma 2's end of an image: not scaled, not rounded, in both stacks; the other tokens are looked up."""
    stock, model = build("t5gemma2"), build("t5gemma2")
    token = stock.config.encoder.eoi_token_index
    ids = torch.tensor([[5, token, 9, token]])
    {
        "float": write_out_special_rows,
        "half": compute_in_half,
        "integers": partial(quantize_model, weights=W8),
    }[form](model)
    for name in ("model.encoder.text_model.embed_tokens", "model.decoder.embed_tokens"):
        want, got = stock.get_submodule(name)(ids), model.get_submodule(name)(ids)
        assert torch.equal(got[0, [1, 3]], want[0, [1, 3]])
        assert not torch.equal(want[0, 1], stock.get_input_embeddings().weight[token] * HIDDEN**0.5)
        allowed = 0.0 if form == "float" else 0.02 * float(want.abs().max())
        assert float((got - want).abs().max()) <= allowed


def test_an_embedding_that_does_more_than_look_up_is_refused_in_one_line() -> None:
    model = build("llama")
    table = model.get_input_embeddings()
    model.set_input_embeddings(OddEmbedding(*table.weight.shape))
    with pytest.raises(ExportFailed, match="the embedding OddEmbedding is not known; use --quantize none") as refused:
        quantize_model(model, W8)
    assert "\n" not in str(refused.value)
