"""Integers and scales for a model's matrices, and the modules that compute with them.

A matrix `[N, C]` is cut into groups of inputs; a group of a feature has one scale, and a minimum with 4 bits. Both are
bfloat16, which every processor reads with a shift, and values are chosen for the rounded scale, so that rounding it
costs nothing. Where a value must stand for zero, as ONNX's operators have it, a minimum is a multiple of the scale, and
float32 so that it is an exact one.

Shape legend: N output features, C inputs, G groups of S inputs, M groups of several features,
X numbers of a group beside its values (1, or 2 with 4 bits).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import MappingProxyType

import torch
from torch import Tensor, nn
from torch.nn import functional

from exporter.spec.streamed_model import WeightRows
from exporter.spec.weight_format import WeightFormat, is_linear
from exporter.weights.operators import dequantized, operators, quantize_groups
from exporter.weights.replacement import looked_up_tables, lookup_scale, replace_modules

_SMALLEST_SCALE = 1e-30
_PARTS_OF_RANGE = (1.0, 0.95, 0.9, 0.85, 0.8)
_ROWS_AT_ONCE = 4096
_WEIGHTS_AT_ONCE = 1 << 18  # what the processor's caches hold, several times over
Lines = Callable[[Tensor, Tensor, Tensor, float], Iterator[tuple[Tensor, Tensor]]]
"""Scales and minima to try for groups `[S, M]` with these lowest and highest weights, and this part of their range."""


def quantize_matrix(weight_NC: Tensor, bits: int, group: int, has_zero: bool = False) -> tuple[Tensor, Tensor]:
    """int8 values `[N, C]` and bfloat16 scales `[N, G, X]` of float32 weights; with 4 bits X = 2, scale and minimum.

    `has_zero`: one of the 4-bit values stands for zero.
    """
    lines = _lines_with_zero if has_zero else _lines
    choose = _eight_bits if bits == 8 else partial(_four_bits, lines=lines)
    terms_type = torch.float32 if has_zero and bits == 4 else torch.bfloat16
    parts = []
    for rows in weight_NC.split(max(1, _WEIGHTS_AT_ONCE // weight_NC.shape[1])):
        padded = functional.pad(rows, (0, -rows.shape[1] % group))
        values_MS, terms_MX = choose(padded.reshape(-1, group))
        values = values_MS.reshape(padded.shape)[:, : rows.shape[1]].to(torch.int8)
        parts.append((values, terms_MX.reshape(rows.shape[0], -1, terms_MX.shape[1]).to(terms_type)))
    return torch.cat([values for values, _ in parts]), torch.cat([terms for _, terms in parts])


def _eight_bits(grouped_MS: Tensor) -> tuple[Tensor, Tensor]:
    """-127..127, the largest magnitude of a group at the end of the range."""
    scales = _rounded_scale(grouped_MS.abs().amax(1, keepdim=True) / 127)
    return (grouped_MS / scales).round_().clamp_(-127, 127), scales


def _four_bits(grouped_MS: Tensor, lines: Lines) -> tuple[Tensor, Tensor]:
    """0..15 with the scale and minimum that lose least of a group in squares, of the `lines` of several ranges.

    Tried are ranges from all of the group's down to a part of it.
    """
    grouped_SM = grouped_MS.T.contiguous()  # sums over a group then run along whole vectors
    low, high = grouped_SM.amin(0, keepdim=True), grouped_SM.amax(0, keepdim=True)
    best_values, best_terms = torch.zeros_like(grouped_SM), torch.cat((torch.ones_like(low), low))
    least = torch.full_like(low, torch.inf)
    for part in _PARTS_OF_RANGE:
        for scales, minima in lines(grouped_SM, low, high, part):
            values = _nearest(grouped_SM, scales, minima)
            loss = (values * scales).add_(minima).sub_(grouped_SM).square_().sum(0, keepdim=True)
            better = loss < least
            best_values = torch.where(better, values, best_values)
            best_terms = torch.where(better, torch.cat((scales, minima)), best_terms)
            least = torch.minimum(loss, least)
    return best_values.T, best_terms.T


def _lines(grouped_SM: Tensor, low: Tensor, high: Tensor, part: float) -> Iterator[tuple[Tensor, Tensor]]:
    """Scale and minimum of a part of a range, as they are and fitted to what their values stand for."""
    span = (high - low) * part
    plain = (_rounded_scale(span / 15), _rounded(low + high - span, 0.5))
    yield plain
    yield _fitted(grouped_SM, _nearest(grouped_SM, *plain))


def _lines_with_zero(grouped_SM: Tensor, low: Tensor, high: Tensor, part: float) -> Iterator[tuple[Tensor, Tensor]]:
    """The same, of a range that includes zero, with one of the values for it."""
    low, high = low.clamp(max=0.0), high.clamp(min=0.0)
    span = (high - low) * part
    scales = _rounded_scale(span / 15)
    zeros = ((span - low - high) / scales * 0.5).round_().clamp_(0, 15)
    yield scales, -zeros * scales
    centred = _nearest(grouped_SM, scales, -zeros * scales) - zeros
    slope = (centred * grouped_SM).sum(0, keepdim=True) / centred.square().sum(0, keepdim=True).clamp_min(1e-12)
    fitted = _rounded_scale(slope)
    yield fitted, -zeros * fitted


def _nearest(grouped_SM: Tensor, scales: Tensor, minima: Tensor) -> Tensor:
    """The 4-bit values next to what they stand for."""
    return (grouped_SM - minima).div_(scales).round_().clamp_(0, 15)


def _fitted(grouped_SM: Tensor, values_SM: Tensor) -> tuple[Tensor, Tensor]:
    """Scale and minimum of the line through the values that is nearest to the weights in squares."""
    mean_value, mean = values_SM.mean(0, keepdim=True), grouped_SM.mean(0, keepdim=True)
    centred = values_SM - mean_value
    together = (centred * (grouped_SM - mean)).sum(0, keepdim=True)
    slope = together / centred.square_().sum(0, keepdim=True).clamp_min(1e-12)
    return _rounded_scale(slope), _rounded(mean - slope * mean_value)


def _rounded(minima: Tensor, factor: float = 1.0) -> Tensor:
    """Minima as bfloat16 holds them, in float32."""
    return (minima * factor).bfloat16().float()


def _rounded_scale(scales: Tensor) -> Tensor:
    """Scales as bfloat16 holds them, in float32; never 0."""
    rounded = scales.bfloat16().float()
    return torch.where(rounded.abs() < _SMALLEST_SCALE, torch.full_like(rounded, _SMALLEST_SCALE), rounded)


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
            parts, keep_floats = weight_NC.split(_ROWS_AT_ONCE), True
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
    """Rows of a matrix in integers; some models scale what they look up."""

    def __init__(self, weight: QuantizedMatrix, scale: Tensor | float | None) -> None:
        super().__init__()
        self.weight = weight
        self.scale = scale

    def forward(self, indices: Tensor) -> Tensor:
        weight = self.weight
        if weight.rounded_NC:
            rows = functional.embedding(indices, weight.rounded_NC[0])
        else:
            rows = operators().quantized_embedding(indices, weight.values, weight.scales, weight.bits, weight.group)
        return rows if self.scale is None else rows * self.scale


def quantize_model(
    model: nn.Module,
    weights: WeightFormat,
    rows: Mapping[int, WeightRows] = MappingProxyType({}),
    keep_floats: bool = True,
) -> None:
    """Replace every matrix of `model` in place: layers, embedding and head; shared ones stay shared.

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
    for module in list(model.modules()):
        if id(module) in lookups:
            stored = matrix(module.weight, weights.embedding_bits)
            replaced[id(module)] = QuantizedEmbedding(stored, lookup_scale(module))
        elif is_linear(module):
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
