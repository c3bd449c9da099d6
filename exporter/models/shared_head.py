"""An output head that reads the embedding's own weights.

A tied head lowered by a delegate would be packed into a copy of its own: the largest matrix of a small model, twice
in the file and twice in memory. The fused spelling projects with the embedding where it is stored.

Shape legend: b rows, r requested positions, C hidden size, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn
from transformers import PreTrainedModel


class SharedHead(nn.Module):
    """`hidden [b, r, C] -> logits [b, r, V]` over the embedding's `[V, C]` parameter."""

    def __init__(self, weight: nn.Parameter, project: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.weight = weight
        self.project = project

    def forward(self, hidden: Tensor) -> Tensor:
        return self.project(hidden.contiguous(), self.weight)


def share_tied_head(model: PreTrainedModel, project: Callable[[Tensor, Tensor], Tensor] | None) -> None:
    """Replace a head that is tied to the input embedding, where the spelling can project with it."""
    head, embedding = model.get_output_embeddings(), model.get_input_embeddings()
    if project is None or head.weight is not embedding.weight or getattr(head, "bias", None) is not None:
        return
    model.set_output_embeddings(SharedHead(embedding.weight, project))
