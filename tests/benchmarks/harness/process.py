"""A rival's process, seen from the suite."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks.harness.job import Answer, Job, Loaded, Unavailable, job_text

REPOSITORY = Path(__file__).parents[3]
OFFLINE = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "PYTHONWARNINGS": "ignore"}


@dataclass(frozen=True)
class Program:
    """What to start: an interpreter, a module of this repository, and where its standard error goes."""

    python: Path
    module: str
    log: Path


def rival_variables(threads: int) -> dict[str, str]:
    """The environment variables of a rival's process."""
    return os.environ | OFFLINE | {"OMP_NUM_THREADS": str(threads)}


class RivalProcess:
    """One JSON line per command, see `harness/job.py`. Raises Unavailable when the rival says so or ends."""

    def __init__(self, program: Program, job: Job) -> None:
        """Start it and wait until the model is loaded."""
        self._program = program
        program.log.parent.mkdir(parents=True, exist_ok=True)
        with program.log.open("w") as log:
            self._process = subprocess.Popen(
                [str(program.python), "-m", program.module, job_text(job)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=rival_variables(job.threads),
                cwd=REPOSITORY,
            )
        try:
            self.loaded = Loaded(**self._read())
        except BaseException:
            self.stop()
            raise

    def answer(self) -> Answer:
        """Run the workload once."""
        return Answer(**self.ask("answer"))

    def follow(self, tokens: list[int]) -> list[int]:
        """The greedy choice at every place of a given continuation of row 0."""
        return self.ask("follow", tokens=tokens)["tokens"]

    def finish(self) -> int:
        """End the process; its peak resident memory in bytes."""
        peak = self.ask("finish")["peak_rss_bytes"]
        self._process.wait()
        return peak

    def stop(self) -> None:
        """End the process whatever it does."""
        self._process.kill()
        self._process.wait()

    def ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        """Any command and its reply."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": command, **arguments}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._ended()
        message = json.loads(line)
        if "unavailable" in message:
            raise Unavailable(message["unavailable"])
        return message

    def _ended(self) -> Unavailable:
        code = self._process.wait()
        return Unavailable(f"its process ended with exit code {code}; see {self._program.log.name}")
