"""A rival's side of the conversation: load once, then answer commands until `finish`.

A rival's file defines how its model is loaded and ends with `serve(load, packages)`. It runs as
`python -m tests.benchmarks.TASK.RIVAL JOB` in the environment of that rival.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib.metadata import version
from typing import Any, Protocol

from runtime_shims.reference.stats import peak_rss_bytes
from tests.benchmarks.harness.job import Answer, Job, Loaded, one_line, parse_job

CAPACITY_COMMANDS = ("check", "time", "endure")


class Rival(Protocol):
    """A loaded model that runs its workload again and again.

    weights_bytes and cache_element_bytes are those of `Loaded`. Beside them it has a method for every command that its
    task asks of it (`job.py`): `answer() -> Answer`; `follow(tokens) -> tokens`, the greedy choice at every place of
    row 0's given continuation, where its tokens may differ from eager's; `check`, `time` and `endure` for capacities.
    """

    weights_bytes: int
    cache_element_bytes: int


def serve(load: Callable[[Job], Rival], packages: Sequence[str]) -> None:
    """Serve commands until `finish`. Whatever libraries print goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def say(message: dict[str, Any]) -> None:
        print(json.dumps(message), file=answers)

    started = time.perf_counter()
    try:
        rival = load(parse_job(sys.argv[1]))
    except Exception as error:
        traceback.print_exc()
        say({"unavailable": one_line(error)})
        return
    versions = {name: version(name) for name in packages}
    seconds = time.perf_counter() - started
    say(asdict(Loaded(seconds, rival.weights_bytes, rival.cache_element_bytes, versions)))
    for line in sys.stdin:
        command = json.loads(line)
        if command["do"] == "finish":
            say({"peak_rss_bytes": peak_rss_bytes()})
            return
        try:
            say(_obey(rival, command))
        except Exception as error:
            traceback.print_exc()
            say({"unavailable": one_line(error)})
            return


def _obey(rival: Any, command: dict[str, Any]) -> dict[str, Any]:
    if command["do"] == "answer":
        return asdict(rival.answer())
    if command["do"] == "follow":
        return {"tokens": rival.follow(command["tokens"])}
    if command["do"] in CAPACITY_COMMANDS:
        return getattr(rival, command["do"])()
    raise ValueError(f"no command {command['do']}")


def timed(tokens: list[list[int]], started: float, first: float) -> Answer:
    """An answer that is complete now; `started` and `first` are readings of `time.perf_counter`."""
    now = time.perf_counter()
    return Answer(tokens, first - started, now - first, now - started)
