"""What a proposer says for one row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runtime_shims.reference.sampling import Distribution

Rows = Sequence[Sequence[int]]
"""Token ids per row."""


@dataclass(frozen=True)
class Proposal:
    """A row's draft tokens; `distributions` are what they were drawn from, one each, or None if they are certain.

    `is_unusable` says that there are none because no token could be chosen from what the draft model answered.
    """

    tokens: tuple[int, ...] = ()
    distributions: tuple[Distribution, ...] | None = None
    is_unusable: bool = False

    def distribution(self, offset: int) -> Distribution | None:
        """What draft `offset` was drawn from."""
        return None if self.distributions is None else self.distributions[offset]


NOTHING = Proposal()
UNUSABLE = Proposal(is_unusable=True)
