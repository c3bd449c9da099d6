"""Attention of the eager reference: what a query may see, as masks, and one softmax over it.

Shape legend: B cache rows, b live rows, T step tokens, S slots, H query heads, K key/value heads, D head size,
N entries of a bias table.
"""

from __future__ import annotations

import torch
from torch import Tensor


def attend(
    query_BHTD: Tensor,
    keys_BKSD: Tensor,
    values_BKSD: Tensor,
    visible_BTS: Tensor,
    scale: float,
    softcap: float | None = None,
    bias_BHTS: Tensor | None = None,
    sinks_H: Tensor | None = None,
) -> Tensor:
    """Masked softmax attention in fp32 with grouped heads; a query that sees nothing yields exactly 0.

    A sink is a score that takes its part of the weights and has no value (arXiv:2309.17453, learned as in GPT-OSS).
    Returns `[b, T, H, D]`, the layout that the output projection reads.
    """
    groups = query_BHTD.shape[1] // keys_BKSD.shape[1]
    keys_BHSD = keys_BKSD.repeat_interleave(groups, dim=1).float()
    values_BHSD = values_BKSD.repeat_interleave(groups, dim=1).float()
    scores = query_BHTD.float() @ keys_BHSD.transpose(-1, -2) * scale
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if bias_BHTS is not None:
        scores = scores + bias_BHTS
    visible = visible_BTS[:, None]
    scores = scores.masked_fill(~visible, torch.finfo(torch.float32).min / 2)
    if sinks_H is not None:
        scores = torch.cat((scores, sinks_H[:, None, None].float().expand(*scores.shape[:3], 1)), dim=-1)
    weights = torch.softmax(scores, dim=-1)[..., : visible.shape[-1]].masked_fill(~visible, 0.0)
    values_BHSD = values_BHSD.masked_fill(~visible.any(dim=2)[..., None], 0.0)  # stale slots may hold anything
    return (weights @ values_BHSD).transpose(1, 2).to(query_BHTD.dtype).contiguous()


def bias_from_table(table_HN: Tensor, distances_BTS: Tensor, origin: int) -> Tensor:
    """Relative bias `[b, H, T, S]` of query-minus-key distances, clamped to the ends of the table."""
    index = (distances_BTS + origin).clamp(0, table_HN.shape[1] - 1)
    return table_HN[:, index].transpose(0, 1)


def slot_positions(ends_B: Tensor, slots: int) -> Tensor:
    """Position held by each slot, `[b, S]`: `end - 1 - ((end - 1 - s) mod slots)`; negative = never written."""
    last_B1 = ends_B[:, None] - 1
    return last_B1 - torch.remainder(last_B1 - torch.arange(slots, device=ends_B.device), slots)


def visible_in_ring(
    positions: Tensor, step_lengths: Tensor, step_tokens: int, slots: int, window: int | None
) -> tuple[Tensor, Tensor]:
    """What each query sees, bool `[b, T, S]`, and how far away it is, int64 `[b, T, S]`; padding sees nothing."""
    steps_T = torch.arange(step_tokens, device=positions.device)
    positions_BS = slot_positions(positions + step_lengths, slots)
    distances_BTS = (positions[:, None] + steps_T)[:, :, None] - positions_BS[:, None, :]
    visible_BTS = (positions_BS >= 0)[:, None, :] & (distances_BTS >= 0)
    if window is not None:
        visible_BTS = visible_BTS & (distances_BTS < window)
    return visible_BTS & (steps_T < step_lengths[:, None])[:, :, None], distances_BTS
