"""Sinusoids that begin behind the padding token's index (M2M100, NLLB, Speech2Text), for a module that grows.

The model's own module counts the tokens that are no padding, makes a longer table when a text is longer than any before
and cannot be given the position of a row. Row `padding_idx` of the table is zero and belongs to padding; position p has
row `padding_idx + 1 + p`.

Shape legend: b rows, T step tokens, E encoder positions, N rows of the table, C width.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from exporter.cache.attention_binding import StepContext, positions_bT


class SinusoidTable(nn.Module):
    """The table `[N, C]` of such a module with a row for each of `positions`."""

    def __init__(self, module: nn.Module, positions: int) -> None:
        super().__init__()
        self.padding_idx = int(module.padding_idx)
        self.first = self.padding_idx + 1
        table_NC = module.get_embedding(self.first + positions, module.embedding_dim, self.padding_idx)
        self.register_buffer("table_NC", table_NC.float().contiguous())

    def rows_bTC(self, tokens_bT: Tensor, positions_bT: Tensor) -> Tensor:
        """Rows of the positions; padding tokens read zeros, what lies past the table its last row."""
        index = (positions_bT + self.first).clamp(max=self.table_NC.shape[0] - 1)
        index = torch.where(tokens_bT == self.padding_idx, self.padding_idx, index)
        return nn.functional.embedding(index, self.table_NC)


class StepSinusoids(SinusoidTable):
    """Read at the step's own per-row positions: the decoder's."""

    def __init__(self, module: nn.Module, positions: int, step: StepContext) -> None:
        super().__init__(module, positions)
        self.step = step

    def forward(self, tokens_bT: Tensor, *args, **kwargs) -> Tensor:
        return self.rows_bTC(tokens_bT, positions_bT(self.step, tokens_bT.shape[1]))


class SourceSinusoids(SinusoidTable):
    """Read at how many tokens that are no padding came before: the encoder's."""

    def forward(self, tokens_bE: Tensor, *args, **kwargs) -> Tensor:
        counted_bE = (tokens_bE != self.padding_idx).to(torch.int64)
        return self.rows_bTC(tokens_bE, torch.cumsum(counted_bE, dim=1) - 1)


def grows_its_table(module: nn.Module | None) -> bool:
    """Whether a model's position module is one of these."""
    return hasattr(module, "make_weights") and hasattr(module, "get_embedding")
