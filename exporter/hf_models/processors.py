"""Suppressed tokens, without a search through the vocabulary at every token.

transformers looks each word of the vocabulary up in the list of suppressed ones, twice per token for Whisper: 51,864
words in 88, which takes as long as half a step of its smallest model. Writing to their places does the same.

Shape legend: B rows, T tokens, V vocabulary.
"""

from __future__ import annotations

import math

from torch import Tensor
from transformers import LogitsProcessor, LogitsProcessorList
from transformers.generation.logits_process import SuppressTokensAtBeginLogitsProcessor, SuppressTokensLogitsProcessor


class QuickSuppression(LogitsProcessor):
    """What one of transformers' two suppressing processors does."""

    def __init__(self, stock: SuppressTokensLogitsProcessor | SuppressTokensAtBeginLogitsProcessor) -> None:
        self._stock = stock
        at_begin = isinstance(stock, SuppressTokensAtBeginLogitsProcessor)
        self._tokens: Tensor = stock.begin_suppress_tokens if at_begin else stock.suppress_tokens
        self._at_begin = at_begin

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Scores float [B, V] behind the tokens int64 [B, T], with the suppressed ones at -inf; a copy, or as given."""
        if self._at_begin and input_ids.shape[-1] != self._stock.begin_index:
            return scores
        return scores.index_fill(1, self._tokens[self._tokens < scores.shape[-1]].long(), -math.inf)


def quick(processors: LogitsProcessorList) -> LogitsProcessorList:
    """The same processors, the suppressing ones among them quick. Subclasses are their authors' and stay."""
    slow = (SuppressTokensLogitsProcessor, SuppressTokensAtBeginLogitsProcessor)
    return LogitsProcessorList(QuickSuppression(one) if type(one) in slow else one for one in processors)
