"""Falcon with rotary positions: 7B's single key/value head, 40B's and 11B's groups of heads, and one head each.

Shape legend: b rows, T step tokens, H query heads, K key/value heads, G = H / K, D head size, C width.
"""

from __future__ import annotations

from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.models.falcon.modeling_falcon import FalconAttention, apply_rotary_pos_emb

from exporter.spec.families import key_value_heads
from exporter.weights.replacement import plain_linear, writes_its_product_out

from .operator_attention import OperatorAttention


class FalconOperatorAttention(OperatorAttention):
    """Stands for `FalconAttention`.

    One matrix makes query, key and value. Of its features each key/value head has the query heads of its group, its
    key and its value in a row: the three layouts of Falcon differ in `K` alone.
    """

    def __init__(self, stock: FalconAttention) -> None:
        super().__init__(stock.layer_idx, stock.inv_norm_factor)
        self.query_key_value = _known(stock.query_key_value)
        self.dense = _known(stock.dense)
        self.kv_heads = key_value_heads(stock.config)
        self.group = stock.num_heads // self.kv_heads
        self.head_dim = stock.head_dim

    def forward(
        self, hidden_bTC: Tensor, position_embeddings: tuple[Tensor, Tensor], **kwargs: object
    ) -> tuple[Tensor, None]:
        fused = self.query_key_value(hidden_bTC).unflatten(-1, (self.kv_heads, self.group + 2, self.head_dim))
        query = fused[..., : self.group, :].flatten(2, 3).transpose(1, 2)
        key = fused[..., self.group, :].transpose(1, 2)
        value = fused[..., self.group + 1, :].transpose(1, 2)
        query, key = apply_rotary_pos_emb(query, key, *position_embeddings)
        return self.dense(self.attend(query, key, value)), None


def stand_ins(model: PreTrainedModel) -> dict[int, nn.Module]:
    """By id of the module that each stands for: attention, and Falcon's own kind of linear layers."""
    made: dict[int, nn.Module] = {}
    for module in model.modules():
        if isinstance(module, FalconAttention):
            made[id(module)] = FalconOperatorAttention(module)
        elif isinstance(module, nn.Linear):
            made[id(module)] = _known(module)
    return made


def _known(layer: nn.Module) -> nn.Module:
    """A layer as lowering knows it; those in integers or in half precision are."""
    return plain_linear(layer) if writes_its_product_out(layer) else layer
