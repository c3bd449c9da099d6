"""BLOOM: no positions but a bias that falls with the distance of a key (ALiBi, arXiv:2108.12409).

Shape legend: b rows, T step tokens, H heads, D head size, C width.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.models.bloom.modeling_bloom import BloomAttention, build_alibi_tensor

from .operator_attention import OperatorAttention


class BloomOperatorAttention(OperatorAttention):
    """Stands for `BloomAttention`, which also adds what went around it.

    One matrix makes query, key and value: of its features each head has its own three in a row.
    """

    def __init__(self, stock: BloomAttention) -> None:
        super().__init__(stock.layer_idx, stock.inv_norm_factor)
        self.query_key_value = stock.query_key_value
        self.dense = stock.dense
        self.split = (stock.num_heads, 3, stock.head_dim)

    def forward(self, hidden_bTC: Tensor, residual_bTC: Tensor, **kwargs: object) -> tuple[Tensor, None]:
        fused = self.query_key_value(hidden_bTC).unflatten(-1, self.split)
        query, key, value = (fused[..., place, :].transpose(1, 2) for place in range(3))
        return residual_bTC + self.dense(self.attend(query, key, value)), None


def stand_ins(model: PreTrainedModel) -> dict[int, nn.Module]:
    """By id of the attention module that each stands for."""
    return {id(one): BloomOperatorAttention(one) for one in model.modules() if isinstance(one, BloomAttention)}


def slopes(model: PreTrainedModel) -> Tensor:
    """What is subtracted for each position between query and key, float32 `[H]`."""
    two_positions = torch.ones(1, 2, dtype=torch.int64)
    return build_alibi_tensor(two_positions, model.config.num_attention_heads, torch.float32)[:, 0, 1]
