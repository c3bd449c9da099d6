"""What depends on the distance of query and key alone, as a table: T5's bias, ALiBi, an encoder's window.

The bias of a query at q for a key at k depends on q - k only, and every distance past `max_distance` falls into one
bucket. The table is filled by the model's own bucket function, once, at export: the graph then holds a lookup, right
for any per-row position and step width.
"""

from __future__ import annotations

import torch
from torch import nn

from exporter.cache.attention_binding import BiasTable
from exporter.cache.core_form import MASKED_SCORE


class BiasHolder(nn.Module):
    """Owns `table_HN`, so that it has one name in the exported state."""

    def __init__(self, table_HN: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("table_HN", table_HN)


def bias_table(attention: nn.Module) -> BiasTable:
    """Table `[H, N]` of an attention module that owns a relative bias; index = q - k + origin.

    Decoder: distances 0..max_distance (origin 0). Encoder: -max_distance..max_distance (origin max_distance).
    """
    reach = attention.relative_attention_max_distance + 1
    if attention.is_decoder:  # one query at `reach - 1` over keys 0..reach - 1: distances descend to 0
        by_distance = attention.compute_bias(1, reach, past_seen_tokens=reach - 1)[0, :, 0].flip(-1)
        return BiasTable(BiasHolder(by_distance.detach().clone().contiguous()), 0)
    bias_HQK = attention.compute_bias(reach, reach)[0]
    key_ahead = bias_HQK[:, 0, :].flip(-1)  # q = 0: distances -(reach - 1)..0
    key_behind = bias_HQK[:, reach - 1, :].flip(-1)  # q = reach - 1: distances 0..reach - 1
    table = torch.cat([key_ahead, key_behind[:, 1:]], dim=1)
    return BiasTable(BiasHolder(table.detach().clone().contiguous()), reach - 1)


def sides_of(window: int, *, is_shared: bool) -> tuple[int, int]:
    """How many positions before and behind its own a query of an encoder's sliding layer sees.

    As many on each side as the window says (transformers' bidirectional masks have `|q - k| <= window`), or with
    `is_shared` as many as fill the window together, one more ahead where it is even (T5Gemma 2).
    """
    return ((window + 1) // 2 - 1, window // 2) if is_shared else (window, window)


def alibi_table(slopes_H: torch.Tensor, reach: int) -> BiasTable:
    """Table `[H, reach]` of a bias that falls by a head's slope with each position between query and key.

    Models add `slope * k` to the score of the key at k. That differs from `-slope * (q - k)` by a number that all keys
    of a query share, which the softmax does not see.
    """
    return BiasTable(BiasHolder(-slopes_H[:, None] * torch.arange(reach)), 0)


def window_table(behind: int, ahead: int, heads: int) -> BiasTable:
    """Table `[H, behind + ahead + 3]` of an encoder's sliding window: masked further than that before or behind it.

    Its ends serve every larger distance.
    """
    table = torch.zeros(heads, behind + ahead + 3)
    table[:, [0, -1]] = MASKED_SCORE
    return BiasTable(BiasHolder(table), ahead + 1)
