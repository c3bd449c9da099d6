"""Writes cache_trace.json: one deterministic history of cursors, for every runtime to replay.

It does not import the product. Slots are really written here, and visible positions and floors are
found by looking at what they hold, so a replay compares the cache law with something independent.

    python tests/golden/make_cache_trace.py

The file: `cases`, each with `max_batch`, `max_context`, `max_step`, `layers` (kind, reach, slots) and
`events` in order. An event applies `op` ("advance", "rollback" or "clear") with `count` to `row`. If
`refused` is true the call must fail and change nothing. Afterwards the row has `length`, `high_water`
and `floor` (the shortest length it may return to). An advance that is not refused also has `reads`, one
entry per layer:
    positions   the position each slot stands for, in slot order; negative: never written
    visible     for each query of the step, in order, the visible slots in ascending order
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TRACE_PATH = Path(__file__).with_name("cache_trace.json")
EVENTS_PER_CASE = 60


@dataclass(frozen=True)
class Layer:
    """One layer's window and number of slots."""

    kind: str
    reach: int
    slots: int


@dataclass
class Row:
    """One row: its lengths and, per layer, the position last written to each slot."""

    layers: tuple[Layer, ...]
    length: int = 0
    high_water: int = 0
    held: list[dict[int, int]] = field(default_factory=list)

    def clear(self) -> None:
        self.length = self.high_water = 0
        self.held = [{} for _ in self.layers]

    def write(self, count: int) -> None:
        for position in range(self.length, self.length + count):
            for layer, held in zip(self.layers, self.held, strict=True):
                held[position % layer.slots] = position
        self.length += count
        self.high_water = max(self.high_water, self.length)

    def floor(self) -> int:
        """Shortest length from which every next query finds its window not overwritten."""
        length = self.length
        while length > 0 and self._is_safe(length - 1):
            length -= 1
        return length

    def _is_safe(self, length: int) -> bool:
        return all(
            held.get(position % layer.slots, position) <= position
            for layer, held in zip(self.layers, self.held, strict=True)
            for position in range(max(0, length - layer.reach + 1), length + 1)
        )


class Sequence:
    """A small generator of integers, the same in every language and version."""

    def __init__(self, seed: int) -> None:
        self._state = seed

    def below(self, bound: int) -> int:
        self._state = (self._state * 1103515245 + 12345) % 2**31
        return (self._state >> 8) % bound


def slot_position(slot: int, slots: int, end: int) -> int:
    """The largest position below `end` that falls into `slot`, counting on below zero."""
    position = end - 1
    while (position - slot) % slots != 0:
        position -= 1
    return position


def reads_of_step(layer: Layer, start: int, end: int) -> dict[str, Any]:
    """What the queries start..end-1 read once the step is written."""
    positions = [slot_position(slot, layer.slots, end) for slot in range(layer.slots)]
    visible = [
        sorted(position % layer.slots for position in range(max(0, query - layer.reach + 1), query + 1))
        for query in range(start, end)
    ]
    return {"positions": positions, "visible": visible}


def make_case(name: str, max_context: int, max_step: int, windows: list[int], seed: int) -> dict[str, Any]:
    """One case: a full layer and one sliding layer per window, two rows, pseudo-random events."""
    reaches = [("full", max_context)] + [("sliding", window) for window in windows]
    layers = tuple(Layer(kind, reach, reach + max_step - 1) for kind, reach in reaches)
    rows = [Row(layers), Row(layers)]
    for row in rows:
        row.clear()
    sequence = Sequence(seed)
    events = [make_event(rows, max_context, max_step, sequence) for _ in range(EVENTS_PER_CASE)]
    return {
        "name": name,
        "max_batch": len(rows),
        "max_context": max_context,
        "max_step": max_step,
        "layers": [{"kind": layer.kind, "reach": layer.reach, "slots": layer.slots} for layer in layers],
        "events": events,
    }


def make_event(rows: list[Row], max_context: int, max_step: int, sequence: Sequence) -> dict[str, Any]:
    """One call. Now and then it asks for one token more than is allowed, and must be refused."""
    index, dice = sequence.below(len(rows)), sequence.below(20)
    row = rows[index]
    start, reads = row.length, []
    room = min(max_step, max_context - row.length)
    deepest = row.length - row.floor()
    if dice == 0:
        op, count, refused = "clear", 0, False
        row.clear()
    elif dice in (1, 2):
        op, count, refused = ("advance", room + 1, True) if dice == 1 else ("rollback", deepest + 1, True)
    elif dice < 8 or room == 0:
        op, count, refused = "rollback", sequence.below(deepest + 1), False
        row.length -= count
    else:
        op, count, refused = "advance", sequence.below(room + 1) if dice < 11 else room, False
        row.write(count)
        reads = [reads_of_step(layer, start, row.length) for layer in row.layers]
    return {
        "op": op,
        "row": index,
        "count": count,
        "refused": refused,
        "length": row.length,
        "high_water": row.high_water,
        "floor": row.floor(),
        "reads": reads,
    }


def make_trace() -> dict[str, Any]:
    """All cases: an ordinary model, one token per call, a window of one, calls wider than windows."""
    return {
        "cases": [
            make_case("a window of 4 and drafts of 2", max_context=24, max_step=3, windows=[4], seed=1),
            make_case("one token per call", max_context=20, max_step=1, windows=[3, 5], seed=2),
            make_case("a window of one", max_context=16, max_step=4, windows=[1], seed=3),
            make_case("calls wider than the window", max_context=30, max_step=7, windows=[2, 5], seed=4),
        ]
    }


def trace_text() -> str:
    """The JSON text, one event per line."""
    cases = []
    for case in make_trace()["cases"]:
        events = ",\n".join(f"    {json.dumps(event)}" for event in case.pop("events"))
        cases.append(f'  {json.dumps(case)[:-1]}, "events": [\n{events}\n  ]}}')
    return '{"cases": [\n' + ",\n".join(cases) + "\n]}\n"


if __name__ == "__main__":
    TRACE_PATH.write_text(trace_text(), encoding="utf-8")
