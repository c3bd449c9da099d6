"""What stands for an attention module of transformers that calls no registered attention function.

Some models compute attention in code of their own, so that nothing registered is ever asked. A stand-in takes over such
a module's layers under their names, makes query, key and value of them, and asks the operator as every other module
does. Why modules are replaced and not patched is in docs/decisions/0027-attention-modules-that-ask-nobody.md.

Shape legend: b rows, T step tokens, H query heads, K key/value heads, D head size, C width.
"""

from __future__ import annotations

from torch import Tensor, nn

from exporter.cache.attention_binding import attention


class OperatorAttention(nn.Module):
    """Attention of one layer through the operator.

    Attributes:
        layer_idx: the decoder layer, whose cache it reads and writes.
        scaling: what products of query and key are multiplied with.
    """

    def __init__(self, layer_idx: int, scaling: float) -> None:
        super().__init__()
        self.layer_idx = layer_idx
        self.scaling = scaling

    def attend(self, query_bHTD: Tensor, key_bKTD: Tensor, value_bKTD: Tensor) -> Tensor:
        """Heads of every token one after another, `[b, T, H * D]`, as output projections read them."""
        out_bTHD, _ = attention(self, query_bHTD, key_bKTD, value_bKTD, scaling=self.scaling)
        return out_bTHD.flatten(2)
