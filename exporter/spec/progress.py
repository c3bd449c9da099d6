"""How long-running work tells what it is doing, without knowing who listens."""

from __future__ import annotations

from typing import Protocol

from exporter.spec.capacity_plan import CapacityPlan


class Progress(Protocol):
    """A listener of stages; a stage lasts until the next one begins."""

    def stage(self, name: str) -> None:
        """The stage `name` begins; a short phrase for people, such as `loading weights`."""

    def planned(self, plan: CapacityPlan, draft: CapacityPlan | None = None) -> None:
        """The plan is made, and that of what drafts for it; nothing has been built yet."""


class SilentProgress:
    """Nobody listens."""

    def stage(self, name: str) -> None:
        """Ignore `name`."""

    def planned(self, plan: CapacityPlan, draft: CapacityPlan | None = None) -> None:
        """Ignore the plans."""


class OfDraft(SilentProgress):
    """Tells a listener which stages are the draft's."""

    def __init__(self, listener: Progress) -> None:
        self._listener = listener

    def stage(self, name: str) -> None:
        self._listener.stage(f"draft: {name}")
