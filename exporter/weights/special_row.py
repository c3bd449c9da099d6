"""A token whose vector does not lie in the table of words: T5Gemma 2's end of an image, which text may hold too."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from exporter.weights.replacement import lookup_scale, replace_modules


class SpecialRow(nn.Module):
    """Rows `[..., C]` that were looked up for tokens `[...]`, with `vector_C` where the token is this one.

    A config may leave the token out.
    """

    def __init__(self, token: int | None, vector_C: nn.Parameter) -> None:
        super().__init__()
        self.token, self.vector = token, vector_C

    def forward(self, indices: Tensor, rows: Tensor) -> Tensor:
        if self.token is None:
            return rows
        return torch.where((indices == self.token)[..., None], self.vector, rows)


def special_row(embedding: nn.Module) -> SpecialRow | None:
    """The token that an embedding keeps apart; None in most."""
    vector = getattr(embedding, "eoi_embedding", None)
    return None if vector is None else SpecialRow(embedding.eoi_token_index, vector)


class TableWithSpecialRow(nn.Module):
    """The lookup of an embedding that keeps a token apart, without writes at places that depend on data."""

    def __init__(self, embedding: nn.Module, special: SpecialRow) -> None:
        super().__init__()
        self.table, self.scale, self.special = embedding, lookup_scale(embedding), special

    def forward(self, indices: Tensor) -> Tensor:
        rows = functional.embedding(indices, self.table.weight)
        return self.special(indices, rows if self.scale is None else rows * self.scale)


def write_out_special_rows(model: nn.Module) -> None:
    """Replace every embedding of `model` that keeps a token apart."""
    found = [(module, special_row(module)) for module in model.modules() if isinstance(module, nn.Embedding)]
    replace_modules(model, {id(one): TableWithSpecialRow(one, row) for one, row in found if row is not None})
