"""Proposers that propose what a test tells them to, and requests run with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from runtime_doubles import VOCAB

from runtime_shims.reference.generation import Generation, generate
from runtime_shims.reference.proposal import Proposal, Rows
from runtime_shims.reference.request import SourceInput
from runtime_shims.reference.sampling import TokenChooser
from runtime_shims.reference.session import Session
from runtime_shims.reference.speculative import Decoding
from runtime_shims.reference.stats import RowRound, RunStats


@dataclass
class ForcedProposer:
    """Proposes a known continuation of every row, wrong from a given draft on.

    `right(row, round)` says how many drafts of a round are right, the rest differ from the continuation in every token.
    """

    continuations: Sequence[Sequence[int]]
    right: Callable[[int, int], int]
    round: int = 0
    asked: list[list[int]] = field(default_factory=list)

    def begin(self, prompts: Rows, source: SourceInput | None, choosers: Sequence[TokenChooser]) -> None:
        self.round = 0

    def propose(self, contexts: Rows, counts: Sequence[int]) -> list[Proposal]:
        self.asked.append(list(counts))
        self.round += 1
        return [Proposal(tuple(self._drafts(row, len(contexts[row]), counts[row]))) for row in range(len(contexts))]

    def _drafts(self, row: int, start: int, count: int) -> list[int]:
        known = [*self.continuations[row][start : start + count]]
        known += [0] * (count - len(known))
        right = self.right(row, self.round - 1)
        return [token if offset < right else (token + 1) % VOCAB for offset, token in enumerate(known)]

    def commit(self, contexts: Rows) -> None:
        """There is nothing to forget."""


@dataclass
class Rounds:
    """Keeps what became of every row in every round."""

    seen: list[list[RowRound]] = field(default_factory=list)

    def __call__(self, outcomes: Sequence[RowRound]) -> None:
        self.seen.append(list(outcomes))

    def accepted(self, row: int) -> list[int]:
        """Accepted drafts of the row's rounds in which it had any."""
        return [outcomes[row].accepted for outcomes in self.seen if outcomes[row].proposed]


def run_rows(
    session: Session,
    prompts: Sequence[Sequence[int]],
    how: Decoding,
    budget: int | Sequence[int | None] | None = None,
    source: SourceInput | None = None,
) -> tuple[list[Generation], RunStats]:
    """The answers of one request, and what they cost."""
    stats = RunStats()
    return generate(session, prompts, source, budget, stats=stats, how=how), stats
