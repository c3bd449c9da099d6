"""Prompt lookup of transformers, kept within the capacity: it looks at no budget itself.

Shape legend: T tokens.
"""

from __future__ import annotations

from typing import Any

from torch import LongTensor, Tensor
from transformers.generation.candidate_generator import CandidateGenerator


class DraftsThatFit(CandidateGenerator):
    """Another generator's candidates, cut where the decoder's positions end."""

    def __init__(self, generator: CandidateGenerator, columns: int) -> None:
        """`columns` is the most that a row of tokens may have, padding included."""
        self._generator = generator
        self._columns = columns
        self.requires_model_outputs = generator.requires_model_outputs

    def get_candidates(self, input_ids: LongTensor, **kwargs: Any) -> tuple[LongTensor, Tensor | None]:
        """`input_ids` int64 [1, T] with drafts behind it, and what they were drawn from, if they were."""
        candidates, logits = self._generator.get_candidates(input_ids, **kwargs)
        most = max(self._columns, input_ids.shape[1])
        drafts = most - input_ids.shape[1]
        return candidates[:, :most], None if logits is None else logits[:, :drafts]

    def update_candidate_strategy(self, input_ids: LongTensor, scores: Tensor, num_matches: int) -> None:
        """Tell the generator how many of its drafts stood."""
        self._generator.update_candidate_strategy(input_ids, scores, num_matches)
