"""One virtual environment per rival, made once from exact pins.

    python -m tests.benchmarks.harness.environments [NAME ...]

Rivals that are made of this project's own packages (eager transformers and its exporters) run in the environment
that runs the suite: their versions are the ones the project pins.
"""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.benchmarks.harness.job import Unavailable, one_line
from tests.benchmarks.harness.process import REPOSITORY

ROOT = REPOSITORY / ".venv-bench"
OWN = "own"
"""The environment that runs the suite."""


@dataclass(frozen=True)
class Environment:
    """Packages by exact version, installed in this order of groups; `variables` are set while they build."""

    groups: tuple[tuple[str, ...], ...]
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """Changes when anything that was asked for changes."""
        asked = repr((self.groups, sorted(self.variables.items())))
        return hashlib.sha256(asked.encode()).hexdigest()


_TORCH = "torch==2.13.0"
_NO_AMX = "-mno-amx-tile -mno-amx-int8 -mno-amx-bf16" if platform.machine() == "x86_64" else ""
ENVIRONMENTS = {
    # Built from source for this machine's processor, in about ten minutes; without AMX, because this version's AMX
    # kernels end the process (signal 11) with every quantized file. Its AVX-512 kernels take their place.
    "llama-cpp": Environment(
        (("llama-cpp-python==0.3.36", "numpy==2.4.6"),),
        {"CMAKE_ARGS": "-DGGML_NATIVE=ON", "CFLAGS": _NO_AMX, "CXXFLAGS": _NO_AMX},
    ),
    # Torch and transformers are what its model builder reads checkpoints with.
    "onnxruntime-genai": Environment(
        (
            (_TORCH, "transformers==5.24.0", "onnx==1.23.2", "onnx-ir==1.1.0"),
            ("onnxruntime-genai==0.18.0", "onnxruntime==1.32.0"),
        )
    ),
    # Pins an older transformers than the project's.
    "optimum-onnx": Environment(
        ((_TORCH, "transformers==4.57.6", "optimum==2.1.0", "optimum-onnx==0.1.0", "onnxruntime==1.32.0"),)
    ),
    # Torch and transformers are what its converter reads checkpoints with.
    "ctranslate2": Environment(((_TORCH, "transformers==5.24.0", "ctranslate2==4.8.5", "faster-whisper==1.2.1"),)),
}


def python_of(name: str) -> Path:
    """The interpreter of an environment, made first if it is not there. Raises Unavailable in one line."""
    if name == OWN:
        return Path(sys.executable)
    environment, directory = ENVIRONMENTS[name], ROOT / name
    python, mark = directory / "bin" / "python", directory / "complete"
    if not mark.is_file() or mark.read_text("utf-8") != environment.digest:
        _run([sys.executable, "-m", "venv", "--clear", str(directory)], {})
        for group in environment.groups:
            install = [str(python), "-m", "pip", "install", "--quiet", *group]
            # What pip built before may have been built with other settings.
            _run([*install, "--no-cache-dir"] if environment.variables else install, environment.variables)
        mark.write_text(environment.digest, encoding="utf-8")
    return python


def _run(command: list[str], variables: dict[str, str]) -> None:
    settings = os.environ | variables | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=settings)
    if done.returncode:
        faults = [line for line in done.stderr.splitlines() if line.lower().lstrip().startswith("error")]
        said = faults or done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise Unavailable(f"cannot be installed: {one_line(said[0])}")


def main() -> None:
    for name in sys.argv[1:] or ENVIRONMENTS:
        try:
            print(f"{name}: {python_of(name)}")
        except Unavailable as reason:
            print(f"{name}: {reason}")


if __name__ == "__main__":
    main()
