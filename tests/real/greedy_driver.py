"""Drives a session greedily past end-of-sequence, plainly or through wrong tokens and rollbacks.

Both runs choose every token from the bundle's own logits. The second is told the first one's tokens, but only
to decide which tokens to write early: as a drafter that is right sometimes.

Shape legend: N new tokens, P probed vocabulary entries.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from runtime_shims.contract.errors import RollbackTooDeep
from runtime_shims.reference.session import Session


@dataclass(frozen=True)
class GreedyRun:
    """New tokens of one row, and `probes`: the logits float32 [N, P] of the probed vocabulary entries."""

    tokens: list[int]
    probes: Tensor


def greedy_run(session: Session, prompt: Sequence[int], count: int, probe_P: Tensor) -> GreedyRun:
    """Write `prompt`, then `count` tokens one step at a time; end-of-sequence is a token like any other."""
    session.begin([prompt])
    logits_V = session.prefill()[0]
    tokens, probes = [int(logits_V.argmax())], [logits_V[probe_P]]
    while len(tokens) < count:
        logits_V = session.step([tokens[-1:]])[0, 0]
        tokens.append(int(logits_V.argmax()))
        probes.append(logits_V[probe_P])
    return GreedyRun(tokens, torch.stack(probes))


@dataclass(frozen=True)
class RollbackPlan:
    """How to roll back: seed, most drafts per step, rounds from one deep rollback to the next, tokens."""

    seed: int
    max_draft: int
    deep_every: int
    tokens: int


@dataclass
class RollbackRun:
    """What a run of rollbacks produced, and how much of it there was."""

    tokens: list[int]
    steps: int = 0
    rolled_back: int = 0
    chained: int = 0
    deep: list[int] = field(default_factory=list)


class RollbackDriver:
    """Generates the tokens of a plain run again, with wrong tokens written and taken back on the way."""

    def __init__(self, session: Session, prompt: Sequence[int], drafter: Sequence[int], plan: RollbackPlan) -> None:
        """`drafter` is what the run will produce if nothing goes wrong; wrong tokens are drawn at random."""
        self._session = session
        self._prompt = list(prompt)
        self._drafter = drafter
        self._plan = plan
        self._numbers = random.Random(plan.seed)
        self._run = RollbackRun([])

    def run(self) -> RollbackRun:
        """Produce as many tokens as the drafter has."""
        self._session.begin([self._prompt])
        tokens = self._run.tokens
        tokens.append(int(self._session.prefill()[0].argmax()))
        rounds = 0
        while len(tokens) < len(self._drafter):
            self._round()
            rounds += 1
            if rounds % self._plan.deep_every == 0:
                self._go_down_to_the_floor()
        return self._run

    def _round(self) -> None:
        """Write the newest token, some right drafts and some wrong ones, and take the wrong ones back."""
        tokens = self._run.tokens
        drafts = self._numbers.randint(0, self._plan.max_draft)
        right = min(self._numbers.randint(0, drafts), len(self._drafter) - 1 - len(tokens))
        step = [tokens[-1], *self._drafter[len(tokens) : len(tokens) + right]]
        wrong = min(drafts - right, self._room(len(step)))
        logits_RV = self._write(step + self._wrong_tokens(wrong))
        tokens += logits_RV[: right + 1].argmax(dim=-1).tolist()
        self._take_back(wrong)

    def _go_down_to_the_floor(self) -> None:
        """Take back all that can be (one more is refused), write wrong tokens there, then the right ones."""
        session, count = self._session, self._session.max_rollback(0)
        with pytest.raises(RollbackTooDeep):
            session.rollback(0, count + 1)
        first = self._numbers.randint(0, count)
        session.rollback(0, first)
        assert session.max_rollback(0) == count - first
        self._take_back(count - first)
        self._run.deep.append(count)
        held = self._prompt + self._run.tokens
        start, end = session.length(0), session.length(0) + count
        wrong = min(self._plan.max_draft + 1, count)
        self._write(self._wrong_tokens(wrong))
        self._take_back(wrong)
        width = session.limits.max_logit_rows
        for at in range(start, end, width):
            self._write(held[at : min(at + width, end)])

    def _write(self, tokens: list[int]) -> Tensor:
        self._run.steps += 1
        return self._session.step([tokens])[0]

    def _take_back(self, count: int) -> None:
        """Roll `count` tokens back, in one call or in several."""
        calls = 0
        while count:
            part = self._numbers.randint(1, count)
            self._session.rollback(0, part)
            self._run.rolled_back += part
            count -= part
            calls += 1
        self._run.chained += calls > 1

    def _room(self, width: int) -> int:
        """Tokens that a step of `width` may still take on."""
        session = self._session
        free = session.limits.max_dec - session.length(0)
        return max(0, min(session.limits.max_logit_rows, free) - width)

    def _wrong_tokens(self, count: int) -> list[int]:
        return [self._numbers.randrange(self._session.manifest.tokens.vocab_size) for _ in range(count)]
