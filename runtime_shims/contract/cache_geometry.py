"""The cache law: how positions, slots and rollbacks relate. Integers only.

Words
    reach       positions a query may look back on, itself included: the window of a sliding layer,
                the whole context of a full layer
    max_step    most tokens one program call writes per row: max(prefill_chunk, max_draft + 1)
    slots       physical rows of a layer's cache, per batch row
    length      tokens held by a row; the next position to write
    end         length + tokens written by this call
    high_water  highest end ever written in a row since it was cleared

Why `slots = reach + max_step - 1`. Below, reach = 4 and max_step = 3; a row of length 6 writes the
positions 6, 7 and 8 in one call and then attends ("#" is visible, "." is not)

    position   0  1  2  3  4  5  6  7  8
    query 6    .  .  .  #  #  #  #  .  .
    query 7    .  .  .  .  #  #  #  #  .
    query 8    .  .  .  .  .  #  #  #  #
                        |<-  6 slots  ->|
    slot       0  1  2  3  4  5  0  1  2        slot = position mod 6

All three keys are written before the first query reads, so the positions 3 to 8 must be held at
once: the reach - 1 older ones that query 6 needs and the max_step new ones. Position 8 takes the
slot of position 2, which no query of this call can see. With 5 slots it would take the slot of
position 3, which query 6 still needs.

Why the floor is `high_water - max_step`. Of all positions ever written, the ring holds the last
`slots`: the positions high_water - slots and later (here 9 - 6 = 3). After a rollback to `length`
the next query is at `length` and looks back to length - reach + 1. That position must be held:

    length - reach + 1 >= high_water - slots = high_water - reach - max_step + 1
    length             >= high_water - max_step

Here rows may return to 6, 7 or 8. As long as high_water <= slots nothing has been overwritten and a
row may return to any length: the floor is 0. The floor follows from the high-water mark and never
from the current length: positions that were written and rolled back have still taken their slots,
so a second rollback has only what the first one left.

A rolled-back position needs no clearing. Back at length 6, one token is written and end is 7: the
slot that holds the rejected position 8 is slot 2, which now derives position 2, and 6 - 2 is not
below reach. It masks itself.

Tokens of a step that are padding, and idle rows, are not written; they do not move high_water.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from runtime_shims.contract.errors import UserInputError
from runtime_shims.contract.integers import require_integer

CacheKind = Literal["full", "sliding"]


@dataclass(frozen=True)
class CacheGeometry:
    """Slots of one self-attention layer. A full layer is the ring that never wraps."""

    kind: CacheKind
    reach: int
    max_step: int

    def __post_init__(self) -> None:
        """Raise UserInputError for an unknown kind or a size below 1."""
        if self.kind not in get_args(CacheKind):
            raise UserInputError(f"kind must be one of {', '.join(get_args(CacheKind))}, got {self.kind!r}")
        require_integer("reach", self.reach, 1)
        require_integer("max_step", self.max_step, 1)

    @property
    def slots(self) -> int:
        """Physical rows needed so that a full-width step never overwrites what it still reads."""
        return self.reach + self.max_step - 1

    def slot_of(self, position: int) -> int:
        """Slot in which the key and value of `position` (>= 0) are written."""
        require_integer("position", position, 0)
        return position % self.slots

    def position_of(self, slot: int, end: int) -> int:
        """Position that `slot` stands for once `end` positions are held; negative: never written.

        The remainder is the mathematical one, in 0..slots-1 even though `end - 1 - slot` may be
        negative. (C++: `%` truncates; add `slots` before taking it a second time.)
        """
        newest = end - 1
        return newest - (newest - slot) % self.slots

    def is_visible(self, query: int, slot: int, end: int) -> bool:
        """Whether the query at position `query` attends to `slot` once `end` positions are held."""
        position = self.position_of(slot, end)
        return 0 <= position <= query and query - position < self.reach

    def rollback_floor(self, high_water: int) -> int:
        """Shortest length a row may return to after `high_water` positions have been written."""
        return 0 if high_water <= self.slots else high_water - self.max_step


@dataclass(frozen=True)
class CrossGeometry:
    """Slots of one cross-attention layer: not a ring, written once per request by `encode`.

    `max_enc` counts encoder *output* positions (Whisper: 1500, after the convolution stride).
    """

    max_enc: int

    def __post_init__(self) -> None:
        """Raise UserInputError for a size below 1."""
        require_integer("max_enc", self.max_enc, 1)

    @property
    def slots(self) -> int:
        """Physical rows: one per encoder output position."""
        return self.max_enc

    def is_visible(self, slot: int, encoder_length: int) -> bool:
        """Whether a query of a row with `encoder_length` encoder positions attends to `slot`."""
        return 0 <= slot < encoder_length
