"""Starts bundle-runner, and Python's own runtime beside it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from runtime_shims.cli import main

TOOL = Path(
    os.environ.get(
        "FIXED_CAPACITY_RUNNER", Path(__file__).parents[2] / "build" / "dev" / "runtime_shims" / "cpp" / "bundle-runner"
    )
)
"""Built by `make test-cpp`, with sanitizers."""
Ids = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Ended:
    """How a run ended, and what it printed."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Runner:
    """The C++ runner as a user starts it."""

    tool: tuple[str, ...] = (str(TOOL),)

    def run(self, *arguments: object, **options: Any) -> Ended:
        command = [*self.tool, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, check=False, encoding="utf-8", errors="replace", **options)
        return Ended(done.returncode, done.stdout, done.stderr)

    def answer(self, bundle: Path, rows: Ids, *arguments: object) -> dict[str, Any]:
        """What `--json` prints for rows of token ids."""
        ended = self.run("--bundle", bundle, *flags(rows), *arguments, "--json")
        assert ended.code == 0, ended.err
        return json.loads(ended.out)

    def tokens(self, bundle: Path, rows: Ids, *arguments: object) -> list[list[int]]:
        return [row["tokens"] for row in self.answer(bundle, rows, *arguments)["generations"]]


RUNS_ONNX = TOOL.is_file() and "ONNX Runtime" in Runner().run("--version").out
needs_onnx = pytest.mark.skipif(not RUNS_ONNX, reason="bundle-runner was built without FIXED_CAPACITY_ONNXRUNTIME")


def flags(rows: Ids) -> list[str]:
    return [text for row in rows for text in ("--ids", ",".join(map(str, row)))]


def python_answer(capsys: Any, bundle: Path, rows: Ids, *arguments: object) -> dict[str, Any]:
    """What `run-model generate` answers to the same."""
    capsys.readouterr()
    assert main(["generate", str(bundle), *flags(rows), *map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def run_both(capsys: Any, bundle: Path, *arguments: object) -> tuple[Ended, Ended]:
    """How the C++ runner ends, and how Python does; messages without the program's name."""
    ended = Runner().run("--bundle", bundle, *arguments)
    capsys.readouterr()
    code = main(["generate", str(bundle), *map(str, arguments)])
    printed = capsys.readouterr()
    return (
        Ended(ended.code, ended.out, ended.err.removeprefix("bundle-runner: ")),
        Ended(code, printed.out, printed.err.removeprefix("run-model: ")),
    )
