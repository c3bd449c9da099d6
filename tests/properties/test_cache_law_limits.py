"""The edges of the cache law: capacity, window, floor, idle rows, reuse, and what is refused."""

from __future__ import annotations

import pytest

from runtime_shims.contract.cache_geometry import CacheGeometry, CrossGeometry
from runtime_shims.contract.errors import CapacityExceeded, RollbackTooDeep, UserInputError
from runtime_shims.contract.sequence_cursor import SequenceCursor

CAPACITY = 12


def make_cursor(window: int = 4, max_step: int = 3, max_batch: int = 2) -> SequenceCursor:
    """A model with one full and one sliding layer."""
    return SequenceCursor(
        max_batch,
        CAPACITY,
        [CacheGeometry("full", CAPACITY, max_step), CacheGeometry("sliding", window, max_step)],
    )


def fill(cursor: SequenceCursor, row: int, length: int) -> None:
    for _ in range(length):
        cursor.advance(row, 1)


def test_exactly_the_capacity_is_usable() -> None:
    cursor = make_cursor()
    fill(cursor, 0, CAPACITY - 1)
    assert cursor.can_extend(0, 1)
    assert not cursor.can_extend(0, 2)
    cursor.advance(0, 1)
    assert cursor.length(0) == CAPACITY
    assert cursor.room(0) == 0
    assert not cursor.can_extend(0, 1)


@pytest.mark.parametrize("length", [CAPACITY - 2, CAPACITY - 1, CAPACITY])
def test_one_token_past_the_capacity_is_refused_before_anything_changes(length: int) -> None:
    cursor = make_cursor()
    fill(cursor, 0, length)
    past = CAPACITY - length + 1
    with pytest.raises(CapacityExceeded, match=r"capacity is 12 and .* fit; export with a larger --max-dec"):
        cursor.advance(0, past)
    assert (cursor.length(0), cursor.high_water(0)) == (length, length)


def test_a_call_wider_than_max_step_is_refused_and_names_the_option() -> None:
    cursor = make_cursor(max_step=3)
    assert cursor.can_extend(0, 3)
    assert not cursor.can_extend(0, 4)
    with pytest.raises(CapacityExceeded, match=r"4 tokens in one call, at most 3 fit.*--prefill-chunk"):
        cursor.advance(0, 4)
    assert cursor.length(0) == 0


def test_a_token_sees_window_minus_one_back_but_not_window() -> None:
    window = 4
    geometry = CacheGeometry("sliding", window, max_step=3)
    query, end = 20, 21
    seen = {
        distance: geometry.is_visible(query, geometry.slot_of(query - distance), end) for distance in range(6)
    }
    assert seen[0]
    assert seen[window - 1]
    assert not seen[window]
    assert not seen[window + 1]


@pytest.mark.parametrize("length", [3, 4, 5])
def test_before_at_and_after_the_window_the_visible_positions_are_the_last_ones(length: int) -> None:
    geometry = CacheGeometry("sliding", 4, max_step=3)
    slots = [slot for slot in range(geometry.slots) if geometry.is_visible(length - 1, slot, length)]
    positions = sorted(geometry.position_of(slot, length) for slot in slots)
    assert positions == list(range(max(0, length - 4), length))


def test_slots_of_an_empty_row_stand_for_negative_positions_and_are_invisible() -> None:
    geometry = CacheGeometry("sliding", 4, max_step=3)
    for slot in range(geometry.slots):
        assert geometry.position_of(slot, 0) < 0
        assert not geometry.is_visible(0, slot, 0)


def test_a_chained_rollback_has_only_what_the_first_one_left() -> None:
    cursor = make_cursor(window=4, max_step=3)
    fill(cursor, 0, 9)
    assert cursor.max_rollback(0) == 3
    cursor.rollback(0, 2)
    assert cursor.max_rollback(0) == 1
    with pytest.raises(RollbackTooDeep, match=r"roll back 2 of 7 tokens, at most 1 can be.*--max-draft"):
        cursor.rollback(0, 2)
    assert (cursor.length(0), cursor.high_water(0)) == (7, 9)
    cursor.rollback(0, 1)
    assert cursor.max_rollback(0) == 0


def test_the_high_water_mark_stays_until_it_is_passed() -> None:
    cursor = make_cursor(window=4, max_step=3)
    fill(cursor, 0, 9)
    cursor.rollback(0, 3)
    cursor.advance(0, 2)
    assert (cursor.length(0), cursor.high_water(0), cursor.floor(0)) == (8, 9, 6)
    cursor.advance(0, 2)
    assert (cursor.length(0), cursor.high_water(0), cursor.floor(0)) == (10, 10, 7)


def test_until_the_ring_wraps_everything_can_be_rolled_back() -> None:
    cursor = make_cursor(window=4, max_step=3)
    fill(cursor, 0, 6)
    assert cursor.max_rollback(0) == 6
    cursor.advance(0, 1)
    assert cursor.max_rollback(0) == 3


def test_more_than_the_row_holds_cannot_be_rolled_back() -> None:
    cursor = make_cursor()
    fill(cursor, 0, 2)
    with pytest.raises(RollbackTooDeep, match="roll back 3 tokens, it holds 2"):
        cursor.rollback(0, 3)
    assert cursor.length(0) == 2


def test_an_idle_row_moves_neither_length_nor_high_water() -> None:
    cursor = make_cursor()
    fill(cursor, 1, 5)
    cursor.advance(0, 3)
    cursor.advance(1, 0)
    assert (cursor.length(1), cursor.high_water(1)) == (5, 5)


def test_rows_accept_and_roll_back_independently() -> None:
    cursor = make_cursor(window=4, max_step=5, max_batch=4)
    for row, accepted in enumerate((0, 1, 3, 4)):
        cursor.advance(row, 5)
        cursor.rollback(row, 4 - accepted)
    assert [cursor.length(row) for row in range(4)] == [1, 2, 4, 5]
    assert [cursor.high_water(row) for row in range(4)] == [5, 5, 5, 5]


def test_a_cleared_row_starts_again_and_the_others_stay() -> None:
    cursor = make_cursor()
    fill(cursor, 0, 9)
    fill(cursor, 1, 9)
    cursor.clear(0)
    assert (cursor.length(0), cursor.high_water(0), cursor.floor(0)) == (0, 0, 0)
    assert cursor.length(1) == 9


def test_the_strictest_layer_decides_how_far_a_row_may_return() -> None:
    layers = [CacheGeometry("sliding", 3, 2), CacheGeometry("sliding", 8, 2), CacheGeometry("full", 12, 2)]
    cursor = SequenceCursor(1, 12, layers)
    fill(cursor, 0, 6)
    assert [layer.rollback_floor(6) for layer in layers] == [4, 0, 0]
    assert cursor.floor(0) == 4


def test_a_cross_cache_is_visible_up_to_the_encoder_length_only() -> None:
    geometry = CrossGeometry(max_enc=5)
    assert geometry.slots == 5
    assert [geometry.is_visible(slot, 3) for slot in range(5)] == [True, True, True, False, False]
    assert not any(geometry.is_visible(slot, 0) for slot in range(5))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ring", 4, 3), "kind must be one of full, sliding, got 'ring'"),
        (("full", 0, 3), "reach must be an integer >= 1, got 0"),
        (("sliding", 4, 0), "max_step must be an integer >= 1, got 0"),
        (("sliding", True, 1), "reach must be an integer >= 1, got True"),
        (("sliding", 4.0, 1), "reach must be an integer >= 1, got 4.0"),
    ],
)
def test_a_wrong_geometry_is_refused_in_one_line(arguments: tuple, message: str) -> None:
    with pytest.raises(UserInputError) as refusal:
        CacheGeometry(*arguments)
    assert str(refusal.value) == message


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ([], "all layers must share one max_step, got no layers"),
        ([CacheGeometry("full", 12, 2), CacheGeometry("full", 12, 3)], "share one max_step, got \\[2, 3\\]"),
        ([CacheGeometry("full", 11, 2)], "a full layer must reach over max_context = 12, got 11"),
    ],
)
def test_layers_that_disagree_are_refused(layers: list[CacheGeometry], message: str) -> None:
    with pytest.raises(UserInputError, match=message):
        SequenceCursor(1, 12, layers)


def test_a_wrong_row_or_count_is_refused_in_one_line() -> None:
    cursor = make_cursor(max_batch=2)
    for row in (-1, 2):
        with pytest.raises(UserInputError, match=r"row must be in 0..1, got -?\d; --max-batch"):
            cursor.length(row)
    for call in (cursor.can_extend, cursor.advance, cursor.rollback):
        with pytest.raises(UserInputError, match="count must be an integer >= 0, got -1"):
            call(0, -1)
    with pytest.raises(UserInputError, match="position must be an integer >= 0, got -1"):
        CacheGeometry("full", 4, 1).slot_of(-1)
