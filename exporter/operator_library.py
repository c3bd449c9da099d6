"""How an operator of ours is made known to PyTorch: schema, eager reference, shapes, and the `.out` form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

NAMESPACE = "fixed_capacity"


@dataclass(frozen=True)
class Operator:
    """Arguments in schema syntax, what computes the result, and what gives its shape and type without data."""

    arguments: str
    eager: Callable[..., Tensor]
    meta: Callable[..., Tensor]


def define(operators: dict[str, Operator]) -> torch.library.Library:
    """Define `torch.ops.fixed_capacity.*`, functional and `.out`; the caller must keep the library alive."""
    library = torch.library.Library(NAMESPACE, "FRAGMENT")
    for name, operator in operators.items():
        library.define(f"{name}({operator.arguments}) -> Tensor")
        library.define(f"{name}.out({operator.arguments}, *, Tensor(z!) out) -> Tensor(z!)")
        library.impl(name, operator.eager, "CPU")
        library.impl(name, operator.meta, "Meta")
        library.impl(f"{name}.out", _out_variant(operator.eager), "CompositeExplicitAutograd")
    return library


def _out_variant(eager: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def run(*arguments, out: Tensor, **keywords) -> Tensor:
        result = eager(*arguments, **keywords)
        out.resize_(result.shape).copy_(result)
        return out

    return run
