"""Weights in half precision: which numbers it holds, and a model's matrices rounded to them.

A model is rounded before its answers are recorded, so that eager PyTorch and the program have the same weights. Storing
then loses nothing: what half precision would change is stored as it is.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from exporter.spec.faults import ExportFailed, raise_if_any
from exporter.spec.weight_format import is_linear

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


def _matrices(model: nn.Module) -> dict[str, nn.Parameter]:
    """The matrices that `WeightSizes` counts as such, each once, under its first name."""
    table = model.get_input_embeddings().weight
    parts = [
        module.weight
        for module in model.modules()
        if is_linear(module) or (isinstance(module, nn.Embedding) and module.weight is table)
    ]
    chosen = {id(weight) for weight in parts}
    return {name: weight for name, weight in model.named_parameters() if id(weight) in chosen}
