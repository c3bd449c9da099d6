"""Steps of an ONNX program in C++ write caches in place and take no memory."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.runner.runner import needs_onnx

pytestmark = needs_onnx

STEPS = Path(__file__).parents[2] / "build" / "dev" / "tests" / "cpp" / "onnx-steps"


UNKEPT = {**os.environ, "ASAN_OPTIONS": "quarantine_size_mb=0:thread_local_quarantine_size_kb=0"}
"""Memory that is given back is not kept by the sanitizer."""


def steps(*arguments: object) -> dict[str, Any]:
    done = subprocess.run([STEPS, *map(str, arguments)], capture_output=True, check=False, text=True, env=UNKEPT)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads the process's memory as Linux states it")
def test_steps_take_no_memory_for_caches(onnx_llama: Path) -> None:
    """800 rows: each of four caches has 40 MB. The control's outputs are memory of its own, which a step must fill."""
    few = [0, 1, 2, *range(300, 320)]
    found, longer = (steps(onnx_llama, *positions) for positions in (few, [*few, *range(320, 400)]))
    control = steps("--apart", onnx_llama, *few)
    cache = found["smallest_cache"]
    assert cache > 30_000_000
    assert longer["grown"] - found["grown"] < cache / 20  # 80 steps more
    assert control["grown"] - found["grown"] > 3 * cache
