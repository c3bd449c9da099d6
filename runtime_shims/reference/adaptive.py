"""How many drafts to ask for: a fixed number, or what the speed model says pays.

With acceptance a (0..1) a round of K drafts brings E tokens and costs v(K) + c * K, in units of a plain step:

    E        = 1 + a + a^2 + ... + a^K        (1 - a^(K+1)) / (1 - a); computed as 1 + a * (1 + a * ...)
    v(K)     seconds of a step of K + 1 tokens per row over those of one token per row, so v(0) = 1
    c        seconds of proposing one token per row over those of a plain step; 0 for lookups
    speed-up = E / (v(K) + c * K)             1 for K = 0

v and c are measured when a run starts, at the run's number of rows and with nearly empty caches.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import torch

from runtime_shims.contract.errors import UserInputError
from runtime_shims.contract.integers import require_integer
from runtime_shims.reference.request import SourceInput
from runtime_shims.reference.session import Session
from runtime_shims.reference.timing import median_of, step_timer

CHOICES = (0, 1, 2, 4, 8)
FIRST_ACCEPTANCE = 0.9
STRIDE = 0.125
LEAST_GAIN = 1.05
PROBE_AFTER = 16
PROBE_DRAFTS = 2
PROBE_SHARE = 0.02
REPEATS = 5


class DraftLength(Protocol):
    """Decides the drafts per row of the next round, before budget and capacity have their say."""

    def choose(self) -> int:
        """Drafts to ask for in the next round; called once per round."""
        ...

    def observe(self, evaluated: int, accepted: int) -> None:
        """What became of one row's drafts: how many were judged, and how many of them stand."""
        ...


@dataclass(frozen=True)
class FixedDrafts:
    """The same number in every round."""

    count: int = 0

    def choose(self) -> int:
        """The number."""
        return self.count

    def observe(self, evaluated: int, accepted: int) -> None:
        """Nothing is learned."""


@dataclass(frozen=True)
class SpeedModel:
    """verify[K] is v(K) for every K that can be verified, verify[0] = 1; draft is c."""

    verify: tuple[float, ...]
    draft: float

    def speed_up(self, drafts: int, acceptance: float) -> float:
        """Tokens per second of rounds of `drafts` drafts, relative to plain decoding."""
        tokens = 1.0
        for _ in range(drafts):
            tokens = 1.0 + acceptance * tokens
        return tokens / (self.verify[drafts] + self.draft * drafts)


class AdaptiveDrafts:
    """The best of 0, 1, 2, 4 and 8 drafts under the running acceptance.

    One state for the whole run, over all rows and requests:

        acceptance  starts at 0.9. Every draft that is judged moves it an eighth of the way to 1 (it stands) or to 0, in
                    order of rounds, rows and positions
        K           the choice of largest speed-up, the smaller one of equals; 0 unless it is more than 1.05, because v
                    and c are measured before anything is cached
        probe       after N rounds of K = 0 in a row one round asks for 2 drafts (or what can be verified), so that a
                    text that has become predictable is noticed. If none stands, the round costs v(2) + 3 c - 1 more
                    than a plain one, a draft step for what the draft model has missed among it: N is 16, or as many
                    rounds as make that 2 % of them
    """

    def __init__(self, model: SpeedModel, max_draft: int) -> None:
        """`max_draft` is what the bundle verifies; choices that were not measured are left out."""
        self.model = model
        most = min(require_integer("max_draft", max_draft, 0), len(model.verify) - 1)
        self._choices = tuple(choice for choice in CHOICES if choice <= most)
        self.acceptance = FIRST_ACCEPTANCE
        self._idle_rounds = 0
        self._probe = min(PROBE_DRAFTS, self._choices[-1])
        loss = model.verify[self._probe] + model.draft * (self._probe + 1) - 1.0
        self.probe_after = max(PROBE_AFTER, math.ceil(loss / PROBE_SHARE))

    def choose(self) -> int:
        """Drafts of the next round; 0 is a fallback to plain decoding."""
        best = max(self._choices, key=lambda drafts: (self.model.speed_up(drafts, self.acceptance), -drafts))
        if self.model.speed_up(best, self.acceptance) <= LEAST_GAIN:
            best = 0
        if best == 0 and self._idle_rounds == self.probe_after:
            best = self._probe
        self._idle_rounds = 0 if best else self._idle_rounds + 1
        return best

    def observe(self, evaluated: int, accepted: int) -> None:
        """Move the running acceptance: `accepted` drafts stand, and the one after them, if it was judged, does not."""
        for position in range(evaluated):
            outcome = 1.0 if position < accepted else 0.0
            self.acceptance += (outcome - self.acceptance) * STRIDE


def measure(session: Session, rows: int, draft: Session | None = None, *, assisted: bool = False) -> SpeedModel:
    """Time steps of every width that `session` verifies, and plain steps of the `draft` session if there is one.

    `assisted`: drafts are those of the session's own assistant.

    Both sessions must be without a request, and are left so. Raises UserInputError otherwise.
    """
    width_seconds = _step_seconds(session, rows, session.limits.max_logit_rows)
    draft_seconds = 0.0 if draft is None else _draft_seconds(session, draft, rows)
    if assisted:
        draft_seconds = _assistant_seconds(session, rows)
    plain = width_seconds[0]
    return SpeedModel(tuple(seconds / plain for seconds in width_seconds), draft_seconds / plain)


def _step_seconds(session: Session, rows: int, widest: int) -> Sequence[float]:
    """Median seconds of steps of 1 to `widest` tokens per row, as far as they fit behind a prompt of one token."""
    with _scratch(session, rows):
        widths = [width for width in range(1, widest + 1) if session.can_extend(0, width)]
        return [median_of(REPEATS, step_timer(session, [[0] * width] * rows)) for width in widths]


def _draft_seconds(target: Session, draft: Session, rows: int) -> float:
    """Median seconds of a plain step of the draft, each behind one of the target.

    What a model finds in the processor's caches is the other's.
    """
    with _scratch(target, rows), _scratch(draft, rows):
        timers = [step_timer(session, [[0]] * rows) for session in (target, draft)]
        return median_of(REPEATS, lambda: [timer() for timer in timers][-1])


def _assistant_seconds(session: Session, rows: int) -> float:
    """Median seconds of a draft of the session's assistant, each behind a plain step."""
    with _scratch(session, rows):
        step, states = step_timer(session, [[0]] * rows), torch.zeros(rows, session.hidden_size)

        def draft() -> float:
            step()
            started = time.perf_counter()
            session.draft([0] * rows, states)
            return time.perf_counter() - started

        return median_of(REPEATS, draft)


@contextmanager
def _scratch(session: Session, rows: int) -> Iterator[None]:
    """A request of one token per row, gone afterwards."""
    if session.rows:
        raise UserInputError("a session is measured between requests; finish the one in progress and call end first")
    try:
        session.begin([[0]] * rows, _scratch_source(session, rows))
        session.prefill()
        if not session.can_extend(0, 1):
            raise UserInputError(
                f"a bundle of {session.limits.max_dec} positions has no step to measure; export with a larger --max-dec"
            )
        yield
    finally:
        session.end()


def _scratch_source(session: Session, rows: int) -> SourceInput | None:
    """The smallest encoder input there is; features always fill the encoder."""
    if (positions := session.manifest.sound_positions) is not None:
        return torch.zeros(rows, positions.window)
    if session.limits.source_shape is not None:
        return torch.zeros(rows, *session.limits.source_shape)
    return None if session.limits.max_enc is None else [[0]] * rows
