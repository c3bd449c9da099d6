"""Integers and scales that stand for the weights of a matrix.

A matrix `[N, C]` is cut into groups of inputs; a group of a feature has one scale, and a minimum with 4 bits. Both are
bfloat16, which every processor reads with a shift, and values are chosen for the rounded scale, so that rounding it
costs nothing. Where a value must stand for zero, as ONNX's operators have it, a minimum is a multiple of the scale, and
float32 so that it is an exact one.

Shape legend: N output features, C inputs, G groups of S inputs, M groups of several features,
X numbers of a group beside its values (1, or 2 with 4 bits).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

_SMALLEST_SCALE = 1e-30
_PARTS_OF_RANGE = (1.0, 0.95, 0.9, 0.85, 0.8)
_WEIGHTS_AT_ONCE = 1 << 18  # what the processor's caches hold, several times over
Lines = Callable[["_Group", float], Iterator[tuple[Tensor, Tensor]]]
"""Scales and minima to try for groups of weights and a part of their range."""


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
    group = _Group.of(grouped_MS.T.contiguous())  # sums over a group then run along whole vectors
    best_terms = torch.cat((torch.ones_like(group.low), group.low))
    least = torch.full_like(group.low, torch.inf)
    for part in _PARTS_OF_RANGE:
        for scales, minima in lines(group, part):
            loss = group.loss(scales, minima)
            best_terms = torch.where(loss < least, torch.cat((scales, minima)), best_terms)
            least = torch.minimum(loss, least)
    values = group.nearest(best_terms[:1], best_terms[1:]).masked_fill_(least.isinf(), 0.0)
    return values.T, best_terms.T


@dataclass(frozen=True)
class _Group:
    """Groups of weights `[S, M]`, their lowest and highest ones `[1, M]`, and memory to compute in."""

    weights_SM: Tensor
    low: Tensor
    high: Tensor
    values_SM: Tensor
    work_SM: Tensor

    @classmethod
    def of(cls, weights_SM: Tensor) -> _Group:
        low, high = weights_SM.amin(0, keepdim=True), weights_SM.amax(0, keepdim=True)
        return cls(weights_SM, low, high, torch.empty_like(weights_SM), torch.empty_like(weights_SM))

    def nearest(self, scales: Tensor, minima: Tensor) -> Tensor:
        """The 4-bit values next to what they stand for; they hold until the next call."""
        return torch.sub(self.weights_SM, minima, out=self.values_SM).div_(scales).round_().clamp_(0, 15)

    def loss(self, scales: Tensor, minima: Tensor) -> Tensor:
        """What the nearest values lose in squares, `[1, M]`."""
        stood_for = torch.mul(self.nearest(scales, minima), scales, out=self.work_SM).add_(minima)
        return stood_for.sub_(self.weights_SM).square_().sum(0, keepdim=True)

    def together(self, left_SM: Tensor, offset: Tensor | float) -> Tensor:
        """The sums of products with the weights less an offset, `[1, M]`."""
        return torch.sub(self.weights_SM, offset, out=self.work_SM).mul_(left_SM).sum(0, keepdim=True)


def _lines(group: _Group, part: float) -> Iterator[tuple[Tensor, Tensor]]:
    """Scale and minimum of a part of a range, as they are and fitted to what their values stand for."""
    span = (group.high - group.low) * part
    plain = (_rounded_scale(span / 15), _rounded(group.low + group.high - span, 0.5))
    yield plain
    yield _fitted(group, group.nearest(*plain))


def _lines_with_zero(group: _Group, part: float) -> Iterator[tuple[Tensor, Tensor]]:
    """The same, of a range that includes zero, with one of the values for it."""
    low, high = group.low.clamp(max=0.0), group.high.clamp(min=0.0)
    span = (high - low) * part
    scales = _rounded_scale(span / 15)
    zeros = ((span - low - high) / scales * 0.5).round_().clamp_(0, 15)
    yield scales, -zeros * scales
    centred = group.nearest(scales, -zeros * scales).sub_(zeros)
    slope = group.together(centred, 0.0) / centred.square_().sum(0, keepdim=True).clamp_min(1e-12)
    fitted = _rounded_scale(slope)
    yield fitted, -zeros * fitted


def _fitted(group: _Group, values_SM: Tensor) -> tuple[Tensor, Tensor]:
    """Scale and minimum of the line through the values that is nearest to the weights in squares."""
    mean_value, mean = values_SM.mean(0, keepdim=True), group.weights_SM.mean(0, keepdim=True)
    centred = values_SM.sub_(mean_value)
    together = group.together(centred, mean)
    slope = together / centred.square_().sum(0, keepdim=True).clamp_min(1e-12)
    return _rounded_scale(slope), _rounded(mean - slope * mean_value)


def _rounded(minima: Tensor, factor: float = 1.0) -> Tensor:
    """Minima as bfloat16 holds them, in float32."""
    return (minima * factor).bfloat16().float()


def _rounded_scale(scales: Tensor) -> Tensor:
    """Scales as bfloat16 holds them, in float32; never 0."""
    rounded = scales.bfloat16().float()
    return torch.where(rounded.abs() < _SMALLEST_SCALE, torch.full_like(rounded, _SMALLEST_SCALE), rounded)
