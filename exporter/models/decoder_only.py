"""Decoder-only models, rotary, with a position table or a bias by distance, dense or mixtures of experts."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from exporter.cache.attention_binding import BiasTable, Role, positions_bT
from exporter.spec.capacity_plan import CapacityPlan
from runtime_shims.contract.manifest import Attention

from .assistant import AssistantDraft
from .fixed_capacity_model import FixedCapacityModel, attention_modules
from .own_attention import alibi_slopes
from .relative_bias import alibi_table


def build(
    model: PreTrainedModel, plan: CapacityPlan, attention: Attention, assistant: PreTrainedModel | None = None
) -> dict[str, nn.Module]:
    """The methods of a decoder-only program: `decode`, and `draft` where it has an assistant."""
    root = FixedCapacityModel(model, plan, attention)
    bias = _bias(root)
    for _, module in attention_modules(model):
        cache = plan.cache_of_layer(module.layer_idx)
        role: Role = "self" if plan.self_caches[cache].layer == module.layer_idx else "shared"
        root.bind_attention(module, role, root.self_layers[cache], bias)
    if assistant is None:
        return {"decode": DecoderOnlyDecode(root)}
    return {"decode": AssistedDecode(root), "draft": AssistantDraft(root, assistant)}


def _bias(root: FixedCapacityModel) -> BiasTable | None:
    """One table for all layers of a model that has ALiBi."""
    slopes_H = alibi_slopes(root.model)
    if slopes_H is None:
        return None
    bias = alibi_table(slopes_H, root.plan.recipe.max_dec)
    root.bias_tables["alibi"] = bias.holder
    return bias


class DecoderOnlyDecode(nn.Module):
    """`decode(input_ids[b,t], positions[b], step_lengths[b], logit_rows[b,r]) -> logits[b,r,V]`."""

    def __init__(self, root: FixedCapacityModel) -> None:
        super().__init__()
        self.root = root

    def forward(self, tokens: Tensor, positions: Tensor, step_lengths: Tensor, logit_rows: Tensor) -> Tensor:
        root = self.root
        root.step.begin(positions=positions, step_lengths=step_lengths, logit_rows=logit_rows)
        position_ids = positions_bT(root.step, tokens.shape[1], root.plan.position_limit)
        out = root.model(input_ids=tokens, position_ids=position_ids, cache=root.self_cache(), use_cache=True)
        return out.logits.to(torch.float32)


class AssistedDecode(DecoderOnlyDecode):
    """`decode(...) -> logits[b,r,V], hidden[b,r,C]`: also the states behind the logits, which an assistant takes."""

    def forward(
        self, tokens: Tensor, positions: Tensor, step_lengths: Tensor, logit_rows: Tensor
    ) -> tuple[Tensor, Tensor]:
        logits = super().forward(tokens, positions, step_lengths, logit_rows)
        return logits, self.root.step.hidden
