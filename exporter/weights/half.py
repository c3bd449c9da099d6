"""Weights in half precision: which numbers it holds, a model's matrices rounded to them, and products in it.

A model is rounded before its answers are recorded, so that eager PyTorch and the program have the same weights. Storing
then loses nothing: what half precision would change is stored as it is.

Products in half precision are those of PyTorch's autocast: a product and what follows it are in half, what adds up over
the layers is not. A lookup returns float32, so the sum that every layer adds to is float32, as norms are.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from exporter.spec.faults import ExportFailed, raise_if_any
from exporter.spec.weight_format import products
from exporter.weights.replacement import looked_up_tables, lookup_scale, replace_modules
from exporter.weights.special_row import special_row

LARGEST = torch.finfo(torch.float16).max


def half_holds(weight: Tensor) -> bool:
    """Whether every value of `weight` is a number of half precision."""
    return torch.equal(weight.half().to(weight.dtype), weight)


def round_to_half(model: nn.Module) -> None:
    """Round the matrices of products, embedding and head to half precision, in place; shared ones stay shared.

    Raises:
        ExportFailed: values beyond half's range; names every such weight, and nothing is rounded.
    """
    weights = _matrices(model)
    faults = [
        f"{name} holds {float(weight.abs().max()):.6g}, beyond half precision's {LARGEST:.0f}; use --dtype float32"
        for name, weight in weights.items()
        if bool((weight.abs() > LARGEST).any())
    ]
    raise_if_any(ExportFailed, "--dtype float16", faults)
    for weight in weights.values():
        weight.data = weight.data.half().to(weight.dtype)


class HalfLinear(nn.Module):
    """`[..., C] -> [..., N]` in half precision; with `is_wide`, from weights in half but in float32."""

    def __init__(self, weight_NC: nn.Parameter, bias: Tensor | None, is_wide: bool) -> None:
        super().__init__()
        self.weight, self.is_wide = weight_NC, is_wide
        dtype = torch.float32 if is_wide else torch.float16
        self.bias = None if bias is None else nn.Parameter(bias.detach().to(dtype), requires_grad=False)

    def forward(self, rows: Tensor) -> Tensor:
        if self.is_wide:
            return functional.linear(rows.float(), self.weight.float(), self.bias)
        return functional.linear(rows.to(self.weight.dtype), self.weight, self.bias)


class HalfEmbedding(nn.Module):
    """Rows of a matrix in half precision, in float32; some models scale what they look up, or keep a token apart."""

    def __init__(self, weight: nn.Parameter, embedding: nn.Module) -> None:
        super().__init__()
        self.weight = weight
        self.scale, self.special = lookup_scale(embedding), special_row(embedding)

    def forward(self, indices: Tensor) -> Tensor:
        rows = functional.embedding(indices, self.weight).float()
        rows = rows if self.scale is None else rows * self.scale
        return rows if self.special is None else self.special(indices, rows)


def compute_in_half(model: nn.Module) -> None:
    """Replace every product and lookup of `model` in place by one in half precision, but `MIXERS`.

    Shared weights stay shared.

    What transformers keeps in float32, T5's feed-forward output, is computed there: its values exceed half's range.
    """
    lookups, wide = looked_up_tables(model), getattr(model, "_keep_in_fp32_modules", None) or ()
    halves: dict[int, nn.Parameter] = {}

    def half(weight: Tensor) -> nn.Parameter:
        if id(weight) not in halves:
            halves[id(weight)] = nn.Parameter(weight.detach().half(), requires_grad=False)
        return halves[id(weight)]

    replaced: dict[int, nn.Module] = {}
    for module in lookups.values():
        replaced[id(module)] = HalfEmbedding(half(module.weight), module)
    for name, module in products(model):
        if isinstance(module, nn.Linear):
            weight = half(module.weight)
        else:  # a transposed copy is nobody else's, and its identity is free again once it is gone
            weight = nn.Parameter(module.weight.detach().T.half().contiguous(), requires_grad=False)
        replaced[id(module)] = HalfLinear(weight, module.bias, name.rpartition(".")[2] in wide)
    replace_modules(model, replaced)


def _matrices(model: nn.Module) -> dict[str, nn.Parameter]:
    """The matrices that `WeightSizes` counts as such, each once, under its first name."""
    lookups = looked_up_tables(model)
    parts = [module.weight for module in (*lookups.values(), *(module for _, module in products(model)))]
    chosen = {id(weight) for weight in parts}
    return {name: weight for name, weight in model.named_parameters() if id(weight) in chosen}
