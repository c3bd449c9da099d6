"""Mixture of experts as two products over all experts: a graph without branches, and without copies of weights.

transformers runs its experts through an interface of their own; this is one more function behind it. Every expert
computes every token, and those that a token did not choose weigh zero. What that costs, and why the chosen experts'
weights are not gathered, is in docs/decisions/0019-all-experts-compute.md.

Shape legend: N tokens, X experts, k experts a token chose, C width, F inner width, P = F, or 2 F with a gate.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.integrations.moe import ExpertsInterface

EXPERTS_NAME = "fixed_capacity"


def all_experts(module: nn.Module, rows_NC: Tensor, chosen_Nk: Tensor, weights_Nk: Tensor) -> Tensor:
    """The registered experts function: rows `[N, C]`, indices and weights of the chosen `[N, k]` -> `[N, C]`."""
    weights_XN = weights_by_expert(chosen_Nk, weights_Nk, module.num_experts)
    rows_XNC = rows_NC[None].expand(module.num_experts, -1, -1)
    name = "gate_up_proj" if module.has_gate else "up_proj"
    inner_XNP = product(module, name, rows_XNC)
    inner_XNF = module._apply_gate(inner_XNP) if module.has_gate else module.act_fn(inner_XNP)
    out_XNC = product(module, "down_proj", inner_XNF)
    return (out_XNC * weights_XN[:, :, None]).sum(dim=0)


def weights_by_expert(chosen_Nk: Tensor, weights_Nk: Tensor, experts: int) -> Tensor:
    """`[X, N]`: the weight of each expert for each token, 0 where it was not chosen."""
    is_chosen_NkX = chosen_Nk[:, :, None] == torch.arange(experts)
    return torch.where(is_chosen_NkX, weights_Nk[:, :, None], 0.0).sum(dim=1).transpose(0, 1)


def product(module: nn.Module, name: str, rows_XNC: Tensor) -> Tensor:
    """Rows of each expert times its matrix, plus its bias. Weights are read as they are stored, never transposed."""
    weight = getattr(module, name)
    if module.is_transposed:
        out = torch.bmm(rows_XNC, weight)
    else:
        out = torch.bmm(weight, rows_XNC.transpose(1, 2)).transpose(1, 2)
    return out + getattr(module, f"{name}_bias")[:, None] if module.has_bias else out


def use_static_experts(model: PreTrainedModel) -> None:
    """Switch a model's experts, if it has any, to the function of this file.

    Raises:
        ValueError: the experts do something behind their last product, which this file does not repeat.
    """
    experts = [module for module in model.modules() if hasattr(module, "has_post_expert_norm")]
    if not experts:
        return
    if any(module.has_post_expert_norm for module in experts):
        raise ValueError(f"{type(experts[0]).__name__} has a norm behind each expert, which is not supported")
    ExpertsInterface.register(EXPERTS_NAME, all_experts)
    model.set_experts_implementation(EXPERTS_NAME)
