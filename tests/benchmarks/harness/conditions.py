"""What numbers depend on beside the code: commit, machine, packages, threads."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.benchmarks.harness.process import REPOSITORY

PACKAGES = ("fixed-capacity", "torch", "executorch", "transformers")


def conditions(threads: int, rounds: int) -> dict[str, Any]:
    """For the head of a report."""
    return {
        "commit": _git("rev-parse", "HEAD"),
        "uncommitted_changes": bool(_git("status", "--porcelain", "--untracked-files=no")),
        "machine": {
            "system": platform.platform(),
            "processor": _processor(),
            "cores": os.cpu_count(),
            "load_average": os.getloadavg(),
        },
        "packages": {name: version(name) for name in PACKAGES},
        "threads": threads,
        "rounds": rounds,
    }


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _processor() -> str:
    cpu = Path("/proc/cpuinfo")
    if cpu.exists():
        for line in cpu.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()
