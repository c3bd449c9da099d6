"""What a run cost: time and tokens per phase, what became of drafts, and the process's peak memory."""

from __future__ import annotations

import resource
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

STATUS = Path("/proc/self/status")

Report = dict[str, object]
"""Values that JSON can hold."""


@dataclass(frozen=True)
class RowRound:
    """What one round brought one row; nothing for a row that had ended.

    proposed    the drafts that were verified
    accepted    how many of them stand: the first ones
    emitted     tokens appended to the row: accepted drafts, and a correction or bonus unless the row ended before it
    """

    proposed: tuple[int, ...] = ()
    accepted: int = 0
    emitted: int = 0

    @property
    def evaluated(self) -> int:
        """Drafts that were judged; those behind a rejected one or behind the end of the row are not."""
        return min(self.emitted, len(self.proposed))

    @property
    def corrected(self) -> bool:
        """Whether a draft was replaced."""
        return self.emitted > self.accepted and self.accepted < len(self.proposed)

    @property
    def has_bonus(self) -> bool:
        """Whether all drafts stand and a token of the target's own followed."""
        return self.emitted > self.accepted == len(self.proposed) > 0


@dataclass
class RunStats:
    """Accumulated over one or more requests. Times are seconds of wall clock.

    encode   checking the request and running the encoder
    prefill  running the prompts, up to the logits of the first new token
    propose  everything of the proposer: a draft model's own encoder and prompts, and the drafts
    verify   steps of the target
    settle   choosing tokens, judging drafts, callbacks, rollbacks
    decode   everything after prefill; its tokens are the new ones without each row's first, whose logits come
             from prefill

    Of drafts: `fallback_rounds` are those in which the speed model asked for none; `unusable_proposals` counts a row's
    rounds that had none because no token could be chosen from the draft model's logits; `accepted_lengths[n]` counts a
    row's rounds in which it had drafts and n of them stood. New tokens are the rows' first ones, accepted drafts,
    corrections, bonuses, and those of rounds without drafts (`plain_tokens`).
    """

    requests: int = 0
    encode_seconds: float = 0.0
    prefill_seconds: float = 0.0
    prefill_tokens: int = 0
    decode_seconds: float = 0.0
    propose_seconds: float = 0.0
    verify_seconds: float = 0.0
    settle_seconds: float = 0.0
    new_tokens: int = 0
    decode_tokens: int = 0
    steps: int = 0
    fallback_rounds: int = 0
    unusable_proposals: int = 0
    proposed: int = 0
    evaluated: int = 0
    accepted: int = 0
    corrections: int = 0
    bonuses: int = 0
    plain_tokens: int = 0
    accepted_lengths: list[int] = field(default_factory=list)

    def record(self, outcomes: Sequence[RowRound]) -> None:
        """Count one round: what became of every row."""
        self.steps += 1
        for outcome in outcomes:
            self.proposed += len(outcome.proposed)
            self.evaluated += outcome.evaluated
            self.accepted += outcome.accepted
            self.corrections += outcome.corrected
            self.bonuses += outcome.has_bonus
            if outcome.proposed:
                self.accepted_lengths += [0] * (outcome.accepted + 1 - len(self.accepted_lengths))
                self.accepted_lengths[outcome.accepted] += 1
            else:
                self.plain_tokens += outcome.emitted

    def as_dict(self) -> Report:
        """For JSON output. Rates are tokens per second over all rows."""
        return {
            "requests": self.requests,
            "encode_seconds": self.encode_seconds,
            "prefill_seconds": self.prefill_seconds,
            "prefill_tokens": self.prefill_tokens,
            "prefill_tokens_per_second": rate(self.prefill_tokens, self.prefill_seconds),
            "decode_seconds": self.decode_seconds,
            "new_tokens": self.new_tokens,
            "decode_steps": self.steps,
            "decode_tokens_per_second": rate(self.decode_tokens, self.decode_seconds),
            "peak_rss_bytes": peak_rss_bytes(),
            "speculation": self.speculation(),
        }

    def speculation(self) -> Report:
        """What became of drafts, and the milliseconds of each phase of a round, summed over all rounds."""
        return {
            "rounds": self.steps,
            "fallback_rounds": self.fallback_rounds,
            "unusable_proposals": self.unusable_proposals,
            "proposed": self.proposed,
            "evaluated": self.evaluated,
            "accepted": self.accepted,
            "acceptance": self.accepted / self.evaluated if self.evaluated else None,
            "accepted_lengths": list(self.accepted_lengths),
            "corrections": self.corrections,
            "bonuses": self.bonuses,
            "plain_tokens": self.plain_tokens,
            "emitted": self.new_tokens,
            "propose_ms": self.propose_seconds * 1000,
            "verify_ms": self.verify_seconds * 1000,
            "settle_ms": self.settle_seconds * 1000,
        }


def rate(count: int, seconds: float) -> float | None:
    """`count` per second; None when no time was measured."""
    return count / seconds if seconds > 0 and count > 0 else None


def peak_rss_bytes() -> int:
    """Highest resident memory of this process since it started, in bytes.

    On Linux `getrusage` starts from the memory of the process that started this one, so the kernel's own
    high-water mark is read instead where there is one.
    """
    if STATUS.is_file():
        for line in STATUS.read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
