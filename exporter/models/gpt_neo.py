"""GPT-Neo: learned positions, layers that see everything and layers with a window, scores that nothing scales.

Shape legend: b rows, T step tokens, H heads, D head size, C width.
"""

from __future__ import annotations

from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.models.gpt_neo.modeling_gpt_neo import GPTNeoSelfAttention

from .operator_attention import OperatorAttention


class GPTNeoOperatorAttention(OperatorAttention):
    """Stands for `GPTNeoSelfAttention`, whose window is that of the layer's cache."""

    def __init__(self, stock: GPTNeoSelfAttention) -> None:
        super().__init__(stock.layer_id, scaling=1.0)
        self.q_proj, self.k_proj, self.v_proj = stock.q_proj, stock.k_proj, stock.v_proj
        self.out_proj = stock.out_proj
        self.heads = (stock.num_heads, stock.head_dim)

    def forward(self, hidden_bTC: Tensor, **kwargs: object) -> tuple[Tensor, None]:
        query, key, value = (
            project(hidden_bTC).unflatten(-1, self.heads).transpose(1, 2)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        return self.out_proj(self.attend(query, key, value)), None


def stand_ins(model: PreTrainedModel) -> dict[int, nn.Module]:
    """By id of the attention module that each stands for."""
    return {id(one): GPTNeoOperatorAttention(one) for one in model.modules() if isinstance(one, GPTNeoSelfAttention)}
