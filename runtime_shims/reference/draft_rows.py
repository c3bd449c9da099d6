"""The drafts that a model makes for each row in one round, drawn one by one.

A draft never breaks its target: a row for which no token can be chosen, because the logits hold NaN or are infinite,
has no drafts in that round.

Shape legend: V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from runtime_shims.reference.proposal import UNUSABLE, Proposal, Rows
from runtime_shims.reference.sampling import Distribution, TokenChooser
from runtime_shims.reference.token_rules import NoTokenAllowed


class DraftRows:
    """One round: `counts[row]` drafts are wanted behind each context."""

    def __init__(self, contexts: Rows, counts: Sequence[int], choosers: Sequence[TokenChooser]) -> None:
        self._counts, self._choosers = counts, choosers
        self._histories = [list(context) for context in contexts]
        self._lengths = [len(context) for context in contexts]
        self._drawn: list[list[Distribution]] = [[] for _ in contexts]
        self._unusable: set[int] = set()

    def live(self) -> dict[int, list[int]]:
        """Row -> its context and its drafts, for the rows that want another; empty when the round is over."""
        return {
            row: history
            for row, history in enumerate(self._histories)
            if row not in self._unusable and len(history) - self._lengths[row] < self._counts[row]
        }

    def draw(self, row: int, logits_V: Tensor) -> None:
        """Choose the next draft of `row`; at a temperature above 0 by one draw of its draft stream."""
        chooser, history = self._choosers[row], self._histories[row]
        try:
            if not chooser.settings.samples:
                history.append(chooser.choose(logits_V, history))
                return
            distribution = chooser.distribution(logits_V, history)
        except NoTokenAllowed:  # and nothing was drawn
            self._unusable.add(row)
            return
        history.append(distribution.take(chooser.stream.next()))
        self._drawn[row].append(distribution)

    def proposals(self) -> list[Proposal]:
        """What became of the round, for every row."""
        return [
            UNUSABLE
            if row in self._unusable
            else Proposal(tuple(history[self._lengths[row] :]), tuple(self._drawn[row]) or None)
            for row, history in enumerate(self._histories)
        ]
