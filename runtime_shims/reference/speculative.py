"""The one decoding loop: propose, verify, judge token by token, take back. Plain decoding is a round without drafts.

A round of one row, whose context ends in a token that is not written yet, with K drafts of which n stand:

    target writes    context[-1], d1 .. dK        K + 1 tokens, K + 1 rows of logits
    emitted          d1 .. dn and one token more  a correction if n < K, a bonus if n = K
    rolled back      K - n                        the row holds its context without the newest token again

A row that ends inside the block is cut there, and so are its caches. Rows differ in K and in n.

Shape legend: B rows of the request, R step tokens with logits, V vocabulary.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from runtime_shims.reference.acceptance import Verdict, judge
from runtime_shims.reference.adaptive import DraftLength, FixedDrafts
from runtime_shims.reference.decoding_row import Row
from runtime_shims.reference.proposal import NOTHING, Proposal
from runtime_shims.reference.proposers import Proposer
from runtime_shims.reference.sampling_settings import SamplingSettings
from runtime_shims.reference.session import Session
from runtime_shims.reference.stats import RowRound, RunStats
from runtime_shims.reference.stop_strings import StopStrings

OnToken = Callable[[int, int], None]
OnRound = Callable[[Sequence[RowRound]], None]


@dataclass(frozen=True)
class Decoding:
    """How tokens are chosen and proposed. The default is plain greedy decoding.

    proposer    where drafts come from; None: there are none
    drafts      how many are asked for in a round
    stops       texts that end a row
    first_row   number of row 0 within the run, which its random streams follow from
    on_round    called after each round with what became of every row, caches rolled back
    """

    settings: SamplingSettings = field(default_factory=SamplingSettings)
    proposer: Proposer | None = None
    drafts: DraftLength = field(default_factory=FixedDrafts)
    stops: StopStrings | None = None
    first_row: int = 0
    on_round: OnRound | None = None


def decode(session: Session, rows: Sequence[Row], how: Decoding, stats: RunStats, on_token: OnToken | None) -> None:
    """Decode until every row has stopped. The prompts have run, and each row has its first token.

    Raises NoTokenAllowed, or what a program raises.
    """
    while any(row.stop_reason is None for row in rows):
        watch = Watch()
        proposals = _propose(rows, how, stats)
        stats.propose_seconds += watch.lap()
        blocks = [
            [] if row.stop_reason else [row.context[-1], *proposal.tokens]
            for row, proposal in zip(rows, proposals, strict=True)
        ]
        logits_BRV = session.step(blocks)
        stats.verify_seconds += watch.lap()
        outcomes = [
            RowRound() if row.stop_reason else settle(index, row, logits_BRV[index], proposals[index], on_token)
            for index, row in enumerate(rows)
        ]
        for index, row in enumerate(rows):
            session.rollback(index, session.length(index) - (len(row.context) - 1))
        if how.proposer is not None:
            how.proposer.commit([row.context for row in rows])
        _record(outcomes, how, stats)
        stats.settle_seconds += watch.lap()


def settle(index: int, row: Row, logits_RV: Tensor, proposal: Proposal, on_token: OnToken | None) -> RowRound:
    """Judge a row's drafts from the first on, and emit until one falls, the row ends, or all of them stand."""
    accepted = emitted = 0
    for offset in range(len(proposal.tokens) + 1):
        verdict = _decide(row, logits_RV[offset], proposal, offset)
        accepted += verdict.accepted
        emitted += 1
        row.emit(verdict.token)
        if on_token is not None:
            on_token(index, verdict.token)
        if row.stop_reason is not None or not verdict.accepted:
            break
    return RowRound(proposal.tokens, accepted, emitted)


def _decide(row: Row, logits_V: Tensor, proposal: Proposal, offset: int) -> Verdict:
    """The token at one position of a block; behind the last draft there is none to accept."""
    if offset == len(proposal.tokens):
        return Verdict(row.chooser.choose(logits_V, row.context), False)
    return judge(row.chooser, logits_V, row.context, proposal.tokens[offset], proposal.distribution(offset))


def _propose(rows: Sequence[Row], how: Decoding, stats: RunStats) -> list[Proposal]:
    """Drafts of a round: as many as are asked for, the row's budget and capacity allow, and the proposer has."""
    if how.proposer is None:
        return [NOTHING] * len(rows)
    wanted = how.drafts.choose()
    stats.fallback_rounds += wanted == 0
    counts = [min(wanted, row.most_drafts) for row in rows]
    proposals = how.proposer.propose([row.context for row in rows], counts)
    stats.unusable_proposals += sum(proposal.is_unusable for proposal in proposals)
    return proposals


def _record(outcomes: Sequence[RowRound], how: Decoding, stats: RunStats) -> None:
    stats.record(outcomes)
    for outcome in outcomes:
        how.drafts.observe(outcome.evaluated, outcome.accepted)
    if how.on_round is not None:
        how.on_round(outcomes)


class Watch:
    """Seconds of wall clock from one call of `lap` to the next; the first from the start."""

    def __init__(self) -> None:
        self._last = time.perf_counter()

    def lap(self) -> float:
        """Seconds since the last lap."""
        now = time.perf_counter()
        seconds, self._last = now - self._last, now
        return seconds
