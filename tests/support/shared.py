"""What the worker processes of one test run (`pytest -n 2`) make once and share."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
"""Processes of this run, of which this may be one."""
THREADS = max(1, (os.cpu_count() or 1) // WORKERS)
"""This process's share of the cores."""


def shared_directory(factory: pytest.TempPathFactory, name: str) -> Path:
    """A directory of this run, the same one in every worker."""
    base = factory.getbasetemp()
    directory = (base if "PYTEST_XDIST_WORKER" not in os.environ else base.parent) / name
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def made_once(target: Path, make: Callable[[Path], object]) -> Path:
    """`target`, made by the first worker that asks for it while others wait."""
    with FileLock(f"{target}.lock"):
        if not target.exists():
            make(target)
    return target
