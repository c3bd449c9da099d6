"""What every backend's lowering returns."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from runtime_shims.contract.manifest import Attention


@dataclass(frozen=True)
class LoweredProgram:
    """A program written to disk, and the bytes its memory arenas take at run time (caches included)."""

    path: Path
    backend: str
    attention: Attention
    size_bytes: int
    planned_bytes: int
