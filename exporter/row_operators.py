"""Norms and rotations of rows as operators: schemas, eager references, registration with PyTorch.

Written out, a norm is seven operators and a rotation six, each of which costs a step time and an export seconds.

Shape legend: C row width, b batch, H heads, T tokens, D head size.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

NAMESPACE = "fixed_capacity"

_SCHEMAS = {
    "rms_norm": "Tensor input, Tensor? weight, float epsilon",
    "rotate": "Tensor input, Tensor cosine, Tensor sine",
}


def rms_norm(input: Tensor, weight: Tensor | None, epsilon: float) -> Tensor:
    """`x / sqrt(mean(x^2) + epsilon) * weight` over the last dimension (arXiv:1910.07467)."""
    normalized = input * torch.rsqrt(input.square().mean(-1, keepdim=True) + epsilon)
    return normalized if weight is None else normalized * weight


def rotate(input: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """`x cos + concat(-x[D/2:], x[:D/2]) sin` of `[b, H, T, D]` by tables `[b or 1, 1, T, D]` (arXiv:2104.09864)."""
    first, second = input.chunk(2, dim=-1)
    return input * cosine + torch.cat((-second, first), dim=-1) * sine


_EAGER: dict[str, Callable[..., Tensor]] = {"rms_norm": rms_norm, "rotate": rotate}


def register_operators() -> torch.library.Library:
    """Define `torch.ops.fixed_capacity.*` of this file; the caller keeps the library alive, as `operators()` does."""
    library = torch.library.Library(NAMESPACE, "FRAGMENT")
    for name, arguments in _SCHEMAS.items():
        library.define(f"{name}({arguments}) -> Tensor")
        library.define(f"{name}.out({arguments}, *, Tensor(z!) out) -> Tensor(z!)")
        library.impl(name, _EAGER[name], "CPU")
        library.impl(name, lambda input, *rest: input.new_empty(input.shape), "Meta")
        library.impl(f"{name}.out", _out_variant(name), "CompositeExplicitAutograd")
    return library


def _out_variant(name: str):
    def run(*arguments, out: Tensor, **keywords) -> Tensor:
        result = _EAGER[name](*arguments, **keywords)
        out.resize_(result.shape).copy_(result)
        return out

    return run


_library = cache(register_operators)


def operators():
    """`torch.ops.fixed_capacity` with the operators of this file, defined on first use."""
    _library()
    return getattr(torch.ops, NAMESPACE)
