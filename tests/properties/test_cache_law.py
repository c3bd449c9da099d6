"""The cache law against a plain list: random writes, rollbacks, chained rollbacks and clears.

The ring below stores tokens only. Which slot stands for which position is asked of the geometry, and
every read is compared with a list that simply holds the row's tokens.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime_shims.contract.cache_geometry import CacheGeometry
from runtime_shims.contract.errors import RollbackTooDeep
from runtime_shims.contract.sequence_cursor import SequenceCursor

MAX_CONTEXT = 400
REACHES = st.integers(1, 12)
STEPS = st.integers(1, 8)
GEOMETRIES = [(reach, step) for reach in (1, 2, 3, 5, 8, 13) for step in (1, 2, 3, 5, 8)]

Draw = Callable[[int, int], int]
"""An integer between two bounds, both included."""


class OneSlotShort(CacheGeometry):
    """The negative control: everything as the law says, with one slot too few."""

    @property
    def slots(self) -> int:
        return super().slots - 1


@dataclass
class Row:
    """One row of one layer: the real ring beside the plain list it must be equal to."""

    geometry: CacheGeometry
    tokens: list[int] = field(default_factory=list)
    ring: dict[int, int] = field(default_factory=dict)
    high_water: int = 0
    wrong_reads: int = 0

    def write(self, count: int, serial: int) -> None:
        """Write `count` tokens in one call, then let each of them read what it may see."""
        start, end = len(self.tokens), len(self.tokens) + count
        for position in range(start, end):
            token = serial + position
            self.tokens.append(token)
            self.ring[self.geometry.slot_of(position)] = token
        self.high_water = max(self.high_water, end)
        for query in range(start, end):
            self.wrong_reads += self._read(query, end) != self._truth(query)

    def rollback(self, count: int) -> None:
        del self.tokens[len(self.tokens) - count :]

    def clear(self) -> None:
        """Forget the tokens; the ring keeps its contents, as real memory does."""
        self.tokens.clear()
        self.high_water = 0

    def _read(self, query: int, end: int) -> dict[int, int | None]:
        slots = range(self.geometry.slots)
        return {
            self.geometry.position_of(slot, end): self.ring.get(slot)
            for slot in slots
            if self.geometry.is_visible(query, slot, end)
        }

    def _truth(self, query: int) -> dict[int, int | None]:
        first = max(0, query - self.geometry.reach + 1)
        return {position: self.tokens[position] for position in range(first, query + 1)}


def run_with_floor(row: Row, floor_of: Callable[[Row], int], draw: Draw, rounds: int) -> None:
    """Random rounds on one row, every rollback as deep as `floor_of` lets it be."""
    for number in range(rounds):
        for _ in range(draw(1, 3)):
            row.write(draw(1, row.geometry.max_step), serial=1000 * (number + 1))
        for _ in range(draw(0, 3)):
            deepest = len(row.tokens) - max(floor_of(row), 0)
            row.rollback(draw(0, max(deepest, 0)))


def by_high_water(row: Row) -> int:
    """The law's floor."""
    return row.geometry.rollback_floor(row.high_water)


def by_current_length(row: Row) -> int:
    """The negative control: forgets that rolled-back tokens have taken their slots."""
    return row.geometry.rollback_floor(len(row.tokens))


def write_full_steps(row: Row, end: int, serial: int = 1000) -> None:
    """Grow the row in steps of full width until at least `end` positions are held."""
    while len(row.tokens) < end:
        row.write(row.geometry.max_step, serial)


@settings(max_examples=150, deadline=None)
@given(st.data(), st.lists(st.tuples(REACHES, st.sampled_from(["sliding", "full"])), min_size=1, max_size=3))
def test_every_read_of_every_row_and_layer_equals_the_plain_list(
    data: st.DataObject, kinds: list[tuple[int, str]]
) -> None:
    max_step, max_batch = data.draw(STEPS), data.draw(st.integers(1, 3))
    geometries = [
        CacheGeometry("full", MAX_CONTEXT, max_step)
        if kind == "full"
        else CacheGeometry("sliding", reach, max_step)
        for reach, kind in kinds
    ]
    cursor = SequenceCursor(max_batch, MAX_CONTEXT, geometries)
    rows = [[Row(geometry) for geometry in geometries] for _ in range(max_batch)]
    for number in range(data.draw(st.integers(1, 25))):
        index = data.draw(st.integers(0, max_batch - 1))
        verb = data.draw(st.sampled_from(["write", "write", "write", "rollback", "too deep", "clear"]))
        if verb == "write":
            count = data.draw(st.integers(0, min(max_step, cursor.room(index))))
            cursor.advance(index, count)
            for row in rows[index]:
                row.write(count, serial=1000 * (number + 1))
        elif verb == "rollback":
            count = data.draw(st.integers(0, cursor.max_rollback(index)))
            cursor.rollback(index, count)
            for row in rows[index]:
                row.rollback(count)
        elif verb == "too deep":
            with pytest.raises(RollbackTooDeep):
                cursor.rollback(index, cursor.max_rollback(index) + 1)
        else:
            cursor.clear(index)
            for row in rows[index]:
                row.clear()
        for expected, layers in enumerate(rows):
            assert {len(row.tokens) for row in layers} == {cursor.length(expected)}
            assert {row.high_water for row in layers} == {cursor.high_water(expected)}
    assert sum(row.wrong_reads for layers in rows for row in layers) == 0


@settings(max_examples=150, deadline=None)
@given(st.data(), REACHES, STEPS)
def test_one_layer_survives_the_deepest_chained_rollbacks(
    data: st.DataObject, reach: int, max_step: int
) -> None:
    row = Row(CacheGeometry("sliding", reach, max_step))
    run_with_floor(
        row,
        by_high_water,
        lambda low, high: data.draw(st.integers(low, high)),
        rounds=data.draw(st.integers(1, 12)),
    )
    assert row.wrong_reads == 0


@settings(max_examples=100, deadline=None)
@given(st.data(), REACHES, STEPS, st.integers(1, 8), st.integers(0, 8))
def test_rounds_of_drafts_with_any_acceptance_equal_the_plain_list(
    data: st.DataObject, reach: int, max_step: int, drafts: int, prompt: int
) -> None:
    """Write the last token and K drafts, keep n + 1, roll K - n back: always within the floor."""
    drafts = min(drafts, max_step - 1)
    geometry = CacheGeometry("sliding", reach, max_step)
    cursor, row = SequenceCursor(1, MAX_CONTEXT, [geometry]), Row(geometry)
    for _ in range(prompt):
        cursor.advance(0, 1)
        row.write(1, serial=0)
    for number in range(12):
        accepted = data.draw(st.integers(0, drafts))
        cursor.advance(0, drafts + 1)
        row.write(drafts + 1, serial=1000 * (number + 1))
        cursor.rollback(0, drafts - accepted)
        row.rollback(drafts - accepted)
        assert cursor.length(0) == len(row.tokens)
    assert row.wrong_reads == 0


@pytest.mark.parametrize(("reach", "max_step"), GEOMETRIES)
def test_steps_of_full_width_are_exact_at_slots_and_wrong_at_one_slot_fewer(
    reach: int, max_step: int
) -> None:
    geometry = CacheGeometry("sliding", reach, max_step)
    exact = Row(geometry)
    write_full_steps(exact, end=4 * geometry.slots)
    assert exact.wrong_reads == 0
    if geometry.slots == 1:
        return  # one slot fewer is no cache at all
    short = Row(OneSlotShort("sliding", reach, max_step))
    write_full_steps(short, end=4 * geometry.slots)
    assert short.wrong_reads > 0


@pytest.mark.parametrize(("reach", "max_step"), [pair for pair in GEOMETRIES if pair[0] > 1])
def test_a_floor_recomputed_from_the_current_length_reads_stale_slots(reach: int, max_step: int) -> None:
    """The second of two rollbacks goes below what the ring still holds."""
    geometry = CacheGeometry("sliding", reach, max_step)
    row = Row(geometry)
    write_full_steps(row, end=2 * geometry.slots + 3 * max_step)
    for _ in range(2):
        row.rollback(len(row.tokens) - geometry.rollback_floor(len(row.tokens)))
    assert len(row.tokens) < geometry.rollback_floor(row.high_water)
    row.write(1, serial=9000)
    assert row.wrong_reads > 0


@pytest.mark.parametrize(("reach", "max_step"), [pair for pair in GEOMETRIES if pair[0] > 1])
def test_the_floor_is_exact_and_one_below_it_reads_a_stale_slot(reach: int, max_step: int) -> None:
    geometry = CacheGeometry("sliding", reach, max_step)
    for end in range(geometry.slots + 1, 3 * geometry.slots):
        for below, expect_wrong in ((0, False), (1, True)):
            row = Row(geometry)
            for _ in range(end):
                row.write(1, serial=1000)
            row.rollback(end - (geometry.rollback_floor(end) - below))
            row.write(1, serial=9000)
            assert (row.wrong_reads > 0) is expect_wrong


def _share_of_wrong_runs(geometry_of: type[CacheGeometry], floor_of: Callable[[Row], int]) -> float:
    """Share of 600 random runs that read a wrong token at least once. Seeded, so it is one number."""
    source, wrong = random.Random(20), 0
    for _ in range(600):
        row = Row(geometry_of("sliding", source.randint(2, 12), source.randint(2, 8)))
        run_with_floor(row, floor_of, source.randint, rounds=20)
        wrong += row.wrong_reads > 0
    return wrong / 600


def test_random_runs_are_right_under_the_law_and_mostly_wrong_under_either_relaxation() -> None:
    assert _share_of_wrong_runs(CacheGeometry, by_high_water) == 0
    assert _share_of_wrong_runs(CacheGeometry, by_current_length) > 0.5
    assert _share_of_wrong_runs(OneSlotShort, by_high_water) > 0.5


def test_a_full_cache_never_wraps_and_can_be_rolled_back_to_its_first_token() -> None:
    geometry = CacheGeometry("full", 20, 5)
    cursor, row = SequenceCursor(1, 20, [geometry]), Row(geometry)
    for number in range(4):
        cursor.advance(0, 5)
        row.write(5, serial=1000 * number)
    assert cursor.max_rollback(0) == 20
    cursor.rollback(0, 20)
    row.rollback(20)
    row.write(5, serial=9000)
    assert row.wrong_reads == 0
