"""How long-running work tells what it is doing, without knowing who listens."""

from __future__ import annotations

from typing import Protocol

from exporter.spec.capacity_plan import CapacityPlan


class Progress(Protocol):
    """A listener of stages; a stage lasts until the next one begins."""

    def stage(self, name: str) -> None:
        """The stage `name` begins; a short phrase for people, such as `loading weights`."""

    def planned(self, plan: CapacityPlan) -> None:
        """The plan is made; nothing has been built yet."""


class SilentProgress:
    """Nobody listens."""

    def stage(self, name: str) -> None:
        """Ignore `name`."""

    def planned(self, plan: CapacityPlan) -> None:
        """Ignore `plan`."""
