"""Where `run-model` begins: nothing but Python itself is imported before an interrupt is one line."""

from __future__ import annotations

import sys
from collections.abc import Callable

INTERRUPTED = 130


def run_model() -> int:
    """Console entry point; returns the exit code."""
    return guarded("run-model", _run_model)


def guarded(name: str, run: Callable[[], int]) -> int:
    """What `run` returns. An interrupt while it imports, or after its command has ended, is one line too."""
    try:
        return run()
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        return INTERRUPTED


def _run_model() -> int:
    from runtime_shims.cli import main

    return main()
