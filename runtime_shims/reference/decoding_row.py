"""One row of a request in progress: its tokens, and why it ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from runtime_shims.contract.manifest import Limits
from runtime_shims.reference.sampling import TokenChooser
from runtime_shims.reference.stop_strings import StopWatch

StopReason = Literal["eos", "stop_string", "max_new_tokens", "capacity"]


@dataclass
class Row:
    """A row in progress.

    The caches hold the context without its newest token, which has no position of its own yet: that holds before and
    after every round, and it is why a row that ends needs no other treatment.

    context        the prompt and everything emitted
    budget         most new tokens; None: as many as fit
    stop_reason    None while the row goes on
    """

    context: list[int]
    prompt_length: int
    budget: int | None
    limits: Limits
    chooser: TokenChooser
    stop_watch: StopWatch | None
    stop_reason: StopReason | None = field(default=None, init=False)

    @property
    def tokens(self) -> tuple[int, ...]:
        """The new tokens."""
        return tuple(self.context[self.prompt_length :])

    @property
    def new_tokens(self) -> int:
        """How many there are."""
        return len(self.context) - self.prompt_length

    @property
    def most_drafts(self) -> int:
        """Drafts that a round can take: a step writes one token more, and may emit one token more."""
        if self.stop_reason is not None:
            return 0
        room = min(self.limits.max_draft, self.limits.max_dec - len(self.context))
        return room if self.budget is None else min(room, self.budget - self.new_tokens - 1)

    def emit(self, token: int) -> None:
        """Append a token, and end the row if it is the last one."""
        self.context.append(token)
        self.stop_reason = self._why_stop(token)

    def _why_stop(self, token: int) -> StopReason | None:
        """In this order, where several hold."""
        completes = self.stop_watch is not None and self.stop_watch.push(token)
        if token in self.chooser.rules.eos:
            return "eos"
        if completes:
            return "stop_string"
        if self.budget is not None and self.new_tokens >= self.budget:
            return "max_new_tokens"
        return "capacity" if len(self.context) > self.limits.max_dec else None
