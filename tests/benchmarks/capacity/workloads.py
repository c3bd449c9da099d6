"""What capacity costs: one step's time against capacity at a fixed live length, and against live length.

All programs must give the same logits after the same tokens before any is timed. Then they take turns. Ratios are
medians of quotients within a round.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from tests.benchmarks.capacity.model import capacity_checkpoint, text
from tests.benchmarks.capacity.plot import plot_steps
from tests.benchmarks.capacity.points import (
    CAPACITIES,
    EXACT_CAPACITIES,
    LIVE,
    Point,
    lives_of,
    memory_ratios,
    point_table,
    step_ratios,
)
from tests.benchmarks.harness.bundles import BundleShelf, recipe_sha256
from tests.benchmarks.harness.conditions import conditions
from tests.benchmarks.harness.environments import python_of
from tests.benchmarks.harness.job import Job, Unavailable, one_line
from tests.benchmarks.harness.process import Program, RivalProcess
from tests.benchmarks.harness.ratios import Ratio, ratio_table
from tests.benchmarks.harness.rivals import OURS, Rival
from tests.benchmarks.harness.settings import Settings

TOLERANCE = 1e-3
"""Largest difference of a logit between programs, relative to the largest logit."""
CHUNK = 128
MEMORY_CAPACITIES = (4096, max(CAPACITIES))
PEER = Rival("transformers.exporters", "fp32", "capacity.transformers_exporters")


@dataclass
class _Running:
    rival: str
    capacity: int
    lives: list[int]
    process: RivalProcess
    rounds: list[list[float]] = field(default_factory=list)

    def points(self) -> Iterator[Point]:
        for index, live in enumerate(self.lives):
            yield Point(self.rival, self.capacity, live, tuple(times[index] for times in self.rounds))


def run(settings: Settings) -> list[str]:
    """Load every program, compare, time in turns; the faults found."""
    checkpoint = str(capacity_checkpoint(settings.work))
    plain = Job("fp32", checkpoint, checkpoint, str(settings.work), settings.threads, prompts=[text(LIVE)])
    recipes: dict[str, str] = {}
    absent: list[str] = []
    with ExitStack() as stack:
        running = []
        for name, capacity, start in _programs(plain, settings, recipes):
            settings.console.print(f"capacity, {name} {capacity} ...", highlight=False)
            try:
                process = start()
            except Exception as reason:  # whatever stands in a program's way is told at the end
                absent.append(f"{name} {capacity}: {one_line(reason)}")
                continue
            stack.callback(process.stop)
            running.append(_Running(name, capacity, lives_of(capacity), process))
        faults = _keep_equal(running, absent)
        for _ in range(settings.rounds):
            for item in list(running):
                if found := _ask(item, "time", running, absent):
                    item.rounds.append(found["seconds"])
        lasting = [item for item in running if item.rival == OURS and item.capacity in MEMORY_CAPACITIES]
        memory = {item.capacity: found for item in lasting if (found := _ask(item, "endure", running, absent))}
    points = [point for item in running for point in item.points()]
    ratios = step_ratios(points) + memory_ratios(memory)
    _publish(settings, points, ratios, {"recipe_sha256": recipes, "absent": absent, "memory": memory})
    return faults


def _programs(
    plain: Job, settings: Settings, recipes: dict[str, str]
) -> Iterator[tuple[str, int, Callable[[], RivalProcess]]]:
    """Ours at all capacities, then the peer's; each is started by a call that may raise Unavailable."""
    shelf = BundleShelf(settings.work / "bundles", settings.reuse)

    def program(rival: Rival, capacity: int) -> Program:
        log = settings.work / "logs" / f"capacity-{rival.name}-{capacity}.log"
        return Program(python_of(rival.environment), f"tests.benchmarks.{rival.module}", log)

    def ours(capacity: int) -> RivalProcess:
        options = ("--max-dec", str(capacity), "--prefill-chunk", str(min(CHUNK, capacity)))
        bundle = shelf.bundle(f"capacity-{capacity}", plain.checkpoint, options)
        recipes[f"capacity {capacity}"] = recipe_sha256(bundle.manifest)
        job = replace(plain, model=str(bundle.root), capacity=capacity, lives=lives_of(capacity))
        return RivalProcess(program(Rival(OURS, "fp32", "capacity.ours"), capacity), job)

    def theirs(capacity: int) -> RivalProcess:
        return RivalProcess(program(PEER, capacity), replace(plain, capacity=capacity, lives=lives_of(capacity)))

    for name, start in ((OURS, ours), (PEER.name, theirs)):
        for capacity in sorted({*CAPACITIES, *EXACT_CAPACITIES}):
            yield name, capacity, lambda start=start, capacity=capacity: start(capacity)


def _keep_equal(running: list[_Running], absent: list[str]) -> list[str]:
    """Drop programs whose logits are not those of the first; faults are those of ours."""
    faults: list[str] = []
    expected: list[float] = []
    for item in list(running):
        found = _ask(item, "check", running, absent)
        if found is None:
            continue
        logits = found["logits"]
        expected = expected or logits
        worst = max(abs(one - other) for one, other in zip(expected, logits, strict=True))
        if worst > TOLERANCE * max(map(abs, expected)):
            line = f"{item.rival} {item.capacity}: not timed, its logits differ by {worst:.3g}"
            absent.append(line)
            faults += [line] if item.rival == OURS else []
            running.remove(item)
    return faults


def _ask(item: _Running, command: str, running: list[_Running], absent: list[str]) -> dict[str, Any] | None:
    """The reply of a program; one that fails takes no further part, and says why."""
    try:
        return item.process.ask(command)
    except Unavailable as reason:
        absent.append(f"{item.rival} {item.capacity}: {one_line(reason)}")
        running.remove(item)
        return None


def _publish(settings: Settings, points: list[Point], ratios: list[Ratio], found: dict[str, Any]) -> None:
    settings.results.mkdir(parents=True, exist_ok=True)
    report = {
        "task": "capacity",
        **conditions(settings.threads, settings.rounds),
        **found,
        "ratios": [ratio.as_dict() for ratio in ratios],
        "points": [point.as_dict() for point in points],
    }
    file = settings.results / "capacity.json"
    file.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    plot_steps(points, file.with_suffix(".png"))
    settings.console.print(point_table(points), "", ratio_table(ratios), "")
    for line in found["absent"]:
        settings.console.print(line, highlight=False)
    settings.console.print(f"written: {file} and .png", highlight=False)
