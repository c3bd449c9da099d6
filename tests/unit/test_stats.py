"""Peak memory is that of the process itself."""

from __future__ import annotations

import subprocess
import sys

import pytest

from runtime_shims.reference import stats

CHILD = "from runtime_shims.reference.stats import peak_rss_bytes; print(peak_rss_bytes())"


def test_memory_held_now_is_part_of_the_peak() -> None:
    ballast = bytearray(b"x" * 64_000_000)
    assert stats.peak_rss_bytes() >= len(ballast)


@pytest.mark.skipif(not stats.STATUS.is_file(), reason="only Linux has a high-water mark of its own")
def test_the_memory_of_the_process_that_started_this_one_does_not_count() -> None:
    ballast = bytearray(b"x" * 400_000_000)
    printed = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, check=True).stdout
    assert int(printed) < len(ballast)
