"""The modules that compute with integers instead of a model's matrices.

Shape legend: N output features, C inputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import torch
from torch import Tensor, nn
from torch.nn import functional

from exporter.spec.streamed_model import ROWS_AT_ONCE, WeightRows
from exporter.spec.weight_format import WeightFormat, products
from exporter.weights.integers import quantize_matrix
from exporter.weights.operators import dequantized, operators, quantize_groups
from exporter.weights.replacement import looked_up_tables, lookup_scale, replace_modules
from exporter.weights.special_row import special_row


class QuantizedMatrix(nn.Module):
    """A matrix in integers, made of weights that are rounded in place, or of rows that are read as they are needed.

    While `rounded_NC` holds the rounded weights, eager PyTorch computes with the same numbers as floats.
    """

    def __init__(
        self, weight_NC: Tensor | WeightRows, bits: int, group: int, has_zero: bool = False, keep_floats: bool = True
    ) -> None:
        super().__init__()
        self.bits, self.group = bits, group
        self.register_buffer("values", torch.empty(tuple(weight_NC.shape), dtype=torch.int8))
        self.rounded_NC: list[Tensor] = []  # in a list: not part of the state
        if isinstance(weight_NC, Tensor):
            parts, keep_floats = weight_NC.split(ROWS_AT_ONCE), True
            self.rounded_NC = [weight_NC]  # rounded in place: a large model is in memory once
        else:
            parts = weight_NC.parts()
            self.rounded_NC = [torch.empty(weight_NC.shape)] if keep_floats else []
        scales, start = [], 0
        for rows in parts:
            stop = start + len(rows)
            self.values[start:stop], terms = quantize_matrix(rows, bits, group, has_zero)
            if keep_floats:
                self.rounded_NC[0][start:stop] = dequantized(self.values[start:stop], terms, group)
            scales.append(terms)
            start = stop
        self.register_buffer("scales", torch.cat(scales))

    @property
    def shape(self) -> torch.Size:
        return self.values.shape

    @property
    def device(self) -> torch.device:
        """Where it is; an assistant of transformers asks."""
        return self.values.device

    def __getitem__(self, indices: Tensor) -> Tensor:
        """Rows float32 `[..., C]` at `indices` int64 `[...]`, rounded; an assistant's clustered head reads so too."""
        if self.rounded_NC:
            return functional.embedding(indices, self.rounded_NC[0])
        return operators().quantized_embedding(indices, self.values, self.scales, self.bits, self.group)


class QuantizedLinear(nn.Module):
    """`[..., C] -> [..., N]` with weights in integers and inputs rounded to 8 bits per group of a row."""

    def __init__(self, weight: QuantizedMatrix, bias: Tensor | None) -> None:
        super().__init__()
        self.weight = weight
        self.bias = None if bias is None else nn.Parameter(bias.detach(), requires_grad=False)

    def forward(self, rows: Tensor) -> Tensor:
        weight, rows = self.weight, rows.float()
        if not weight.rounded_NC:
            return operators().quantized_dense(rows, weight.values, weight.scales, self.bias, weight.bits, weight.group)
        integers, scales = quantize_groups(rows, weight.group)
        rounded = (integers * scales).flatten(-2)[..., : rows.shape[-1]]
        return functional.linear(rounded, weight.rounded_NC[0], self.bias)


class QuantizedEmbedding(nn.Module):
    """Rows of a matrix in integers; some models scale what they look up, or keep a token's row apart."""

    def __init__(self, weight: QuantizedMatrix, embedding: nn.Module) -> None:
        super().__init__()
        self.weight = weight
        self.scale, self.special = lookup_scale(embedding), special_row(embedding)

    def forward(self, indices: Tensor) -> Tensor:
        rows = self.weight[indices]
        rows = rows if self.scale is None else rows * self.scale
        return rows if self.special is None else self.special(indices, rows)


def quantize_model(
    model: nn.Module,
    weights: WeightFormat,
    rows: Mapping[int, WeightRows] = MappingProxyType({}),
    keep_floats: bool = True,
) -> None:
    """Replace every matrix of `model` in place: layers, embedding and head, but `MIXERS`; shared ones stay shared.

    Args:
        rows: where weights that are not in memory are read from, by id of the parameter.
        keep_floats: keep the rounded weights of these, too, for eager answers that take a quarter of the time.

    Raises:
        ExportFailed: the embedding does more than look up and scale.
    """
    head, lookups = model.get_output_embeddings(), looked_up_tables(model)
    matrices: dict[int, QuantizedMatrix] = {}

    def made(weight_NC: Tensor | WeightRows, bits: int) -> QuantizedMatrix:
        group = weights.group or weight_NC.shape[1]
        return QuantizedMatrix(weight_NC, bits, group, weights.for_onnx, keep_floats)

    def matrix(weight: Tensor, bits: int) -> QuantizedMatrix:
        if id(weight) not in matrices:
            matrices[id(weight)] = made(rows.get(id(weight)) or weight.detach(), bits)
        return matrices[id(weight)]

    def transposed(weight: Tensor) -> Tensor:
        return (rows[id(weight)].whole() if id(weight) in rows else weight).T

    replaced: dict[int, nn.Module] = {}
    for module in lookups.values():
        stored = matrix(module.weight, weights.embedding_bits)
        replaced[id(module)] = QuantizedEmbedding(stored, module)
    for _, module in products(model):
        bits = weights.embedding_bits if module is head else weights.linear_bits
        is_plain = isinstance(module, nn.Linear)
        stored = matrix(module.weight, bits) if is_plain else made(transposed(module.weight), bits)
        replaced[id(module)] = QuantizedLinear(stored, module.bias)
    replace_modules(model, replaced)


def keep_integers_only(model: nn.Module) -> None:
    """Drop the floats that `quantize_model` leaves for fast eager answers; from now on the operators compute."""
    for module in model.modules():
        if isinstance(module, QuantizedMatrix):
            module.rounded_NC.clear()
