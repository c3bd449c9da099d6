"""What takes part in a task: a rival in one variant, and how its job is prepared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.benchmarks.harness.environments import OWN
from tests.benchmarks.harness.job import Job

REFERENCE = "eager"
OURS = "fixed-capacity"


@dataclass(frozen=True)
class Rival:
    """One row of a table.

    module       what its process runs, below `tests.benchmarks`
    environment  a key of `environments.ENVIRONMENTS`, or `OWN`
    exact        its greedy tokens must equal the reference's; if False, their agreement is reported; None: not judged
    """

    name: str
    variant: str
    module: str
    environment: str = OWN
    exact: bool | None = True

    @property
    def label(self) -> str:
        """Name and variant, as tables and plots show them."""
        return f"{self.name} {self.variant}"


@dataclass(frozen=True)
class Entry:
    """A rival and its job; `prepare` makes what the job needs and may raise Unavailable."""

    rival: Rival
    prepare: Callable[[], Job]
