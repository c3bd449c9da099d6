"""Commands in processes of their own, on disks of their own, and what they leave behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

LLAMA_LIMITS = ("--max-dec", "96", "--max-draft", "2", "--prefill-chunk", "4")
"""Of the tiny Llama that the tests export by the command line."""
EXPORT_MODEL = (sys.executable, "-c", "import sys; from exporter.start import export_model; sys.exit(export_model())")
RUN_MODEL = (sys.executable, "-c", "import sys; from runtime_shims.start import run_model; sys.exit(run_model())")


def listing(directory: Path) -> dict[str, bytes | None]:
    """Every path below `directory` with its contents; None for a directory."""
    return {
        path.relative_to(directory).as_posix(): path.read_bytes() if path.is_file() else None
        for path in sorted(directory.rglob("*"))
    }


def run(*command: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """The finished command, with two threads and these variables added to the environment."""
    return subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "2"} | environment,
    )


def small_disk(mount_point: Path, kilobytes: int) -> tuple[str, ...]:
    """A command prefix under which `mount_point` is an empty disk of this size; skips where not allowed."""
    if sys.platform != "linux" or shutil.which("unshare") is None:
        pytest.skip("needs Linux namespaces")
    mount = f'mount -t tmpfs -o size={kilobytes}k none "{mount_point}" && exec "$@"'
    prefix = ("unshare", "--map-root-user", "--mount", "sh", "-c", mount, "sh")
    if run(*prefix, "true").returncode != 0:
        pytest.skip("this user may not mount a file system of its own")
    return prefix
