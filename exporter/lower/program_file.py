"""What every backend's lowering returns."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class LoweredProgram:
    """A program written to disk, and the bytes its memory arenas take at run time (caches included)."""

    path: Path
    backend: str
    attention: str
    size_bytes: int
    planned_bytes: int
