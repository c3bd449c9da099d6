"""Replays cache_trace.json with the contract's cursor and geometry. The C++ runtime replays it too."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from make_cache_trace import TRACE_PATH, trace_text

from runtime_shims.contract.cache_geometry import CacheGeometry
from runtime_shims.contract.errors import CapacityExceeded, RollbackTooDeep
from runtime_shims.contract.sequence_cursor import SequenceCursor

CASES = json.loads(TRACE_PATH.read_text(encoding="utf-8"))["cases"]


def apply(cursor: SequenceCursor, event: dict[str, Any]) -> None:
    if event["op"] == "clear":
        cursor.clear(event["row"])
    elif event["op"] == "rollback":
        cursor.rollback(event["row"], event["count"])
    else:
        cursor.advance(event["row"], event["count"])


def reads_of(geometry: CacheGeometry, end: int, count: int) -> dict[str, Any]:
    slots = range(geometry.slots)
    return {
        "positions": [geometry.position_of(slot, end) for slot in slots],
        "visible": [
            [slot for slot in slots if geometry.is_visible(query, slot, end)]
            for query in range(end - count, end)
        ],
    }


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_the_cursor_replays_the_golden_trace(case: dict[str, Any]) -> None:
    geometries = [CacheGeometry(layer["kind"], layer["reach"], case["max_step"]) for layer in case["layers"]]
    assert [geometry.slots for geometry in geometries] == [layer["slots"] for layer in case["layers"]]
    cursor = SequenceCursor(case["max_batch"], case["max_context"], geometries)
    for number, event in enumerate(case["events"]):
        row = event["row"]
        if event["refused"]:
            with pytest.raises(CapacityExceeded if event["op"] == "advance" else RollbackTooDeep):
                apply(cursor, event)
        else:
            apply(cursor, event)
        state = (cursor.length(row), cursor.high_water(row), cursor.floor(row))
        assert state == (event["length"], event["high_water"], event["floor"]), f"event {number}"
        if event["reads"]:
            reads = [reads_of(geometry, cursor.length(row), event["count"]) for geometry in geometries]
            assert reads == event["reads"], f"event {number}"


def test_the_trace_is_what_its_script_writes() -> None:
    assert TRACE_PATH.read_text(encoding="utf-8") == trace_text()


def test_the_trace_covers_wraps_refusals_and_clears() -> None:
    for case in CASES:
        events = case["events"]
        smallest = min(layer["slots"] for layer in case["layers"])
        assert any(event["high_water"] > smallest for event in events)
        assert {(event["op"], event["refused"]) for event in events} == {
            ("advance", False),
            ("advance", True),
            ("rollback", False),
            ("rollback", True),
            ("clear", False),
        }


def test_the_trace_holds_a_second_rollback_right_after_one_past_the_wrap() -> None:
    rows = [
        (case, [event for event in case["events"] if event["row"] == row])
        for case in CASES
        for row in range(case["max_batch"])
    ]
    assert any(
        first["op"] == second["op"] == "rollback"
        and not (first["refused"] or second["refused"])
        and min(first["count"], second["count"]) > 0
        and second["high_water"] > min(layer["slots"] for layer in case["layers"])
        for case, events in rows
        for first, second in pairwise(events)
    )
