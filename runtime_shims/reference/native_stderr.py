"""Keeps what C++ libraries print while loading away from the user's terminal."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr


@contextmanager
def captured_native_stderr() -> Iterator[list[str]]:
    """Collect what is written to file descriptor 2 in the block; the list is filled when it ends.

    ExecuTorch logs processor probing and the cause of a failed load there, or to `sys.stderr` where its
    bindings redirect it, which is another place in notebooks. The descriptor belongs to the whole process: use
    this around loading, not around steps.
    """
    lines: list[str] = []
    sys.stderr.flush()
    saved = os.dup(2)
    try:
        with tempfile.TemporaryFile("w+", buffering=1, errors="replace") as sink, redirect_stderr(sink):
            os.dup2(sink.fileno(), 2)
            try:
                yield lines
            finally:
                os.dup2(saved, 2)
                sink.seek(0)
                lines += sink.read().splitlines()
    finally:
        os.close(saved)
