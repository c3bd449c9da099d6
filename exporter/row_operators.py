"""Norms and rotations of rows as operators: schemas, eager references, registration with PyTorch.

Written out, a norm is seven operators and a rotation six, each of which costs a step time and an export seconds.

Shape legend: C row width, b batch, H heads, T tokens, D head size.
"""

from __future__ import annotations

from functools import cache, partial

import torch
from torch import Tensor

from exporter.operator_library import NAMESPACE, Operator, define


def rms_norm(input: Tensor, weight: Tensor | None, epsilon: float) -> Tensor:
    """`x / sqrt(mean(x^2) + epsilon) * weight` over the last dimension (arXiv:1910.07467)."""
    normalized = input * torch.rsqrt(input.square().mean(-1, keepdim=True) + epsilon)
    return normalized if weight is None else normalized * weight


def rotate(input: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """`x cos + concat(-x[D/2:], x[:D/2]) sin` of `[b, H, T, D]` by tables `[b or 1, 1, T, D]` (arXiv:2104.09864)."""
    first, second = input.chunk(2, dim=-1)
    return input * cosine + torch.cat((-second, first), dim=-1) * sine


def _meta_alike(input: Tensor, *rest) -> Tensor:
    return input.new_empty(input.shape)


_OPERATORS = {
    "rms_norm": Operator("Tensor input, Tensor? weight, float epsilon", rms_norm, _meta_alike),
    "rotate": Operator("Tensor input, Tensor cosine, Tensor sine", rotate, _meta_alike),
}
_library = cache(partial(define, _OPERATORS))


def operators():
    """`torch.ops.fixed_capacity` with the operators of this file, defined on first use."""
    _library()
    return getattr(torch.ops, NAMESPACE)
