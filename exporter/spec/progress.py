"""How long-running work tells what it is doing, without knowing who listens."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """A listener of stages; a stage lasts until the next one begins."""

    def stage(self, name: str) -> None:
        """The stage `name` begins; a short phrase for people, such as `loading weights`."""


class SilentProgress:
    """Nobody listens."""

    def stage(self, name: str) -> None:
        """Ignore `name`."""
