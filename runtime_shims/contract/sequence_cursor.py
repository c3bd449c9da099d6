"""Length and high-water mark per batch row: the only mutable state of a sequence.

The caches themselves are never copied, zeroed or reordered: writing advances a row's length, and a
rollback subtracts from it. What may be rolled back follows from `cache_geometry`.
"""

from __future__ import annotations

from collections.abc import Iterable

from runtime_shims.contract.cache_geometry import CacheGeometry
from runtime_shims.contract.errors import CapacityExceeded, RollbackTooDeep, UserInputError
from runtime_shims.contract.integers import as_integer, pictured, require_integer


class SequenceCursor:
    """Where each row of a batch stands in its self-attention caches.

    Rows are independent. Every method checks first and changes afterwards: a call that raises has
    changed nothing.
    """

    def __init__(self, max_batch: int, max_context: int, geometries: Iterable[CacheGeometry]) -> None:
        """Start all rows empty.

        `max_context` is the number of positions a row can hold (`--max-dec`); `geometries` are those
        of the self-attention layers, repetitions welcome. Raises UserInputError when they disagree
        on max_step or when a full layer does not reach over exactly `max_context`.
        """
        require_integer("max_batch", max_batch, 1)
        require_integer("max_context", max_context, 1)
        self._geometries = tuple(dict.fromkeys(geometries))
        steps = sorted({geometry.max_step for geometry in self._geometries})
        if len(steps) != 1:
            raise UserInputError(f"all layers must share one max_step, got {steps or 'no layers'}")
        for geometry in self._geometries:
            if geometry.kind == "full" and geometry.reach != max_context:
                raise UserInputError(
                    f"a full layer must reach over max_context = {max_context}, got {geometry.reach}"
                )
        self.max_batch = max_batch
        self.max_context = max_context
        self.max_step = steps[0]
        self._lengths = [0] * max_batch
        self._high_waters = [0] * max_batch

    def length(self, row: int) -> int:
        """Tokens held by `row`: the position of the next one."""
        self._check_row(row)
        return self._lengths[row]

    def high_water(self, row: int) -> int:
        """Highest end ever written in `row` since it was cleared."""
        self._check_row(row)
        return self._high_waters[row]

    def floor(self, row: int) -> int:
        """Shortest length `row` may be rolled back to: the strictest layer decides."""
        high_water = self.high_water(row)
        return max(geometry.rollback_floor(high_water) for geometry in self._geometries)

    def room(self, row: int) -> int:
        """Tokens that still fit in `row`, over any number of calls."""
        return self.max_context - self.length(row)

    def can_extend(self, row: int, count: int) -> bool:
        """Whether one call may write `count` (>= 0) tokens to `row`."""
        count = require_integer("count", count, 0)
        return count <= min(self.max_step, self.room(row))

    def advance(self, row: int, count: int) -> None:
        """Record that one call writes `count` real tokens to `row`; padding is not counted.

        Call it before the program runs: it raises CapacityExceeded while nothing is written yet.
        """
        count = require_integer("count", count, 0)
        if not self.can_extend(row, count):
            raise CapacityExceeded(self._why_not(row, count))
        self._lengths[row] += count
        self._high_waters[row] = max(self._high_waters[row], self._lengths[row])

    def max_rollback(self, row: int) -> int:
        """Most tokens that can be taken back from `row` now."""
        return self.length(row) - self.floor(row)

    def rollback(self, row: int, count: int) -> None:
        """Take the last `count` (>= 0) tokens of `row` back.

        Raises RollbackTooDeep when a later query would read a slot that has been overwritten.
        """
        count = require_integer("count", count, 0)
        allowed = self.max_rollback(row)
        if count > self._lengths[row]:
            raise RollbackTooDeep(
                f"row {row}: asked to roll back {count} tokens, it holds {self._lengths[row]}"
            )
        if count > allowed:
            raise RollbackTooDeep(
                f"row {row}: asked to roll back {count} of {self._lengths[row]} tokens, "
                f"at most {allowed} can be; a larger --max-draft or --prefill-chunk at export raises it"
            )
        self._lengths[row] -= count

    def clear(self, row: int) -> None:
        """Forget `row`, high-water mark included: the next request starts at position 0."""
        self._check_row(row)
        self._lengths[row] = 0
        self._high_waters[row] = 0

    def _check_row(self, row: int) -> None:
        number = as_integer(row)
        if number is None or not 0 <= number < self.max_batch:
            raise UserInputError(
                f"row must be in 0..{self.max_batch - 1}, got {pictured(row)}; --max-batch at export sets it"
            )

    def _why_not(self, row: int, count: int) -> str:
        """The message of a refused advance."""
        if count > self.max_step:
            return (
                f"row {row}: {count} tokens in one call, at most {self.max_step} fit; send them in chunks "
                f"or export with a larger --prefill-chunk"
            )
        return (
            f"row {row}: {count} more tokens after {self._lengths[row]}, the capacity is "
            f"{self.max_context} and {self.room(row)} fit; export with a larger --max-dec"
        )
