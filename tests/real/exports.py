"""The bundles that the real-weight tests share: each made once, by the command line, in a process of its own.

An own process gives every export a peak memory of its own, and proves that `export-model` alone is enough. Workers of
one test run (`pytest -n 2`) share the bundles too: who finds one being made elsewhere makes another meanwhile.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock, Thread

from filelock import FileLock, Timeout

from runtime_shims.contract.bundle_reader import Bundle, read_bundle
from tests.support.real import real_weights

SPELLINGS = ("fused", "portable")
FORMS = (*SPELLINGS, "onnx")
"""What a bundle holds: a program for ExecuTorch with one spelling of attention, or one for ONNX Runtime."""


@dataclass(frozen=True)
class ExportCase:
    """A model and its export options; `model` makes the MODEL argument from the directory of real weights.

    Rows that nobody uses cost time in core operators, so `portable` programs go without the options in `rows`.
    """

    model: Callable[[Path], str]
    options: tuple[str, ...]
    rows: tuple[str, ...] = ()


CASES: dict[str, ExportCase] = {
    "gemma3": ExportCase(
        lambda cache: str(real_weights().gemma3_270m_gguf(cache)),
        ("--max-dec", "2048", "--max-draft", "7", "--prefill-chunk", "64"),
        rows=("--max-batch", "4"),
    ),
    "smollm2": ExportCase(lambda cache: str(real_weights().smollm2_gguf()), ("--max-batch", "4", "--max-dec", "512")),
    "whisper": ExportCase(lambda cache: str(real_weights().whisper_tiny_en_checkpoint(cache)), ("--max-batch", "2")),
    "t5-small": ExportCase(lambda cache: "t5-small", ("--random-weights", "--max-batch", "8", "--max-enc", "512")),
}


_GEMMA3 = CASES["gemma3"]
FORMATS: dict[str, ExportCase] = {
    "gemma3-float16": ExportCase(_GEMMA3.model, (*_GEMMA3.options, "--dtype", "float16")),
    "gemma3-int8-weights-kv": ExportCase(_GEMMA3.model, (*_GEMMA3.options, "--quantize", "int8-weights-kv")),
    "gemma3-8da4w": ExportCase(_GEMMA3.model, (*_GEMMA3.options, "--quantize", "8da4w"), _GEMMA3.rows),
    "smollm2-8da4w": ExportCase(CASES["smollm2"].model, (*CASES["smollm2"].options, "--quantize", "8da4w")),
    "whisper-8da8w": ExportCase(CASES["whisper"].model, (*CASES["whisper"].options, "--quantize", "8da8w")),
}
"""The same models with their weights, and some with their caches, in fewer bits."""


@dataclass(frozen=True)
class ExportRecord:
    """What one export cost. Sizes in bytes; weights are counted once and as they are stored.

    CPU seconds are those of all its threads: on a shared machine they say more than the wall clock.
    """

    name: str
    form: str
    seconds: float
    cpu_seconds: float
    peak_rss_bytes: int
    file_bytes: int
    weights_bytes: int


def backend_of(form: str) -> str:
    """Whose programs these are."""
    return "onnx" if form == "onnx" else "xnnpack"


class Exports:
    """Bundles by (case, form), made at first use below `directory` and kept as long as it is.

    An export uses one core. Who will need several asks for them with `start` first: `at_once` of them are made side by
    side while the tests go on.
    """

    def __init__(self, directory: Path, weights: Path, at_once: int) -> None:
        """`weights` is where files made from packaged weights are kept."""
        self._directory = directory
        self._weights = weights
        self._at_once = at_once
        self._lock = Lock()
        self._waiting: deque[tuple[str, str]] = deque()
        self._begun: dict[tuple[str, str], Future[ExportRecord]] = {}
        self._makers: list[Thread] = []
        self.records: dict[tuple[str, str], ExportRecord] = {}

    def start(self, keys: Iterable[tuple[str, str]]) -> None:
        """Begin to make bundles that are not there yet, in this order."""
        with self._lock:
            for key in keys:
                if key not in self._begun:
                    self._begun[key] = Future()
                    self._waiting.append(key)
            self._makers = [maker for maker in self._makers if maker.is_alive()]
            while len(self._makers) < min(self._at_once, len(self._waiting)):
                self._makers.append(Thread(target=self._make_those_that_wait))
                self._makers[-1].start()

    def stop(self) -> None:
        """Wait for exports that run, and begin no others."""
        with self._lock:
            self._waiting.clear()
        for maker in self._makers:
            maker.join()

    def bundle(self, name: str, form: str) -> Bundle:
        """The bundle of `CASES[name]` or `FORMATS[name]` in one form; hashes are checked once."""
        key = (name, form)
        self.start([key])
        self._hurry(key)
        check_hashes = key not in self.records
        self.records[key] = self._begun[key].result()
        return read_bundle(self._path(name, form), check_hashes=check_hashes)

    def _hurry(self, key: tuple[str, str]) -> None:
        with self._lock:
            if key in self._waiting:
                self._waiting.remove(key)
                self._waiting.appendleft(key)

    def _make_those_that_wait(self) -> None:
        while (key := self._next()) is not None:
            future = self._begun[key]
            try:
                with FileLock(f"{self._path(*key)}.lock", timeout=0.2):
                    future.set_result(self._record(*key))
            except Timeout:  # another worker makes it
                with self._lock:
                    self._waiting.append(key)
            except BaseException as error:
                future.set_exception(error)

    def _next(self) -> tuple[str, str] | None:
        with self._lock:
            return self._waiting.popleft() if self._waiting else None

    def _path(self, name: str, form: str) -> Path:
        return self._directory / f"{name}-{form}.bundle"

    def _record(self, name: str, form: str) -> ExportRecord:
        """What the bundle cost, once it is there."""
        path = self._path(name, form)
        record_path = path.with_suffix(".json")
        if not record_path.is_file():
            record = self._export(name, form, path)
            record_path.write_text(json.dumps(asdict(record)), encoding="utf-8")
        return ExportRecord(**json.loads(record_path.read_text("utf-8")))
    def _export(self, name: str, form: str, path: Path) -> ExportRecord:
        case = (CASES | FORMATS)[name]
        rows = () if form == "portable" else case.rows
        spelling = () if form == "onnx" else ("--attention", form)
        options = [*case.options, *rows, *spelling, "--backend", backend_of(form)]
        command = [script("export-model"), case.model(self._weights), *options, "--json", "-o", str(path)]
        measured = run_measured(command)
        report = json.loads(measured.printed)
        return ExportRecord(
            name=name,
            form=form,
            seconds=measured.seconds,
            cpu_seconds=measured.cpu_seconds,
            peak_rss_bytes=measured.peak_rss_bytes,
            file_bytes=sum(report["programs"].values()),
            weights_bytes=report["weights_bytes"],
        )


def script(name: str) -> str:
    """A command of this project in the running environment."""
    return str(Path(sys.executable).with_name(name))


@dataclass(frozen=True)
class Measured:
    """Standard output of a command, and what it and its children used."""

    printed: str
    seconds: float
    cpu_seconds: float
    peak_rss_bytes: int


def run_measured(command: list[str]) -> Measured:
    """Run a command with one thread in PyTorch. Raises AssertionError with its stderr when it fails.

    A small process stands between, because Linux counts the memory of the process that starts another as the
    other's own.
    """
    between = [sys.executable, "-S", "-c", _BETWEEN, *command]
    with tempfile.NamedTemporaryFile("r") as usage:
        environment = os.environ | {"USAGE_FILE": usage.name, "OMP_NUM_THREADS": "1"}
        ran = subprocess.run(between, capture_output=True, text=True, check=False, env=environment)
        assert ran.returncode == 0, f"{' '.join(command)}\n{ran.stderr[-2000:]}"
        return Measured(ran.stdout, **json.load(usage))


_BETWEEN = """
import json, os, resource, subprocess, sys, time
started = time.monotonic()
code = subprocess.call(sys.argv[1:])
seconds = time.monotonic() - started
used = resource.getrusage(resource.RUSAGE_CHILDREN)
unit = 1 if sys.platform == "darwin" else 1024
measured = {
    "seconds": seconds, "cpu_seconds": used.ru_utime + used.ru_stime, "peak_rss_bytes": used.ru_maxrss * unit
}
with open(os.environ["USAGE_FILE"], "w") as file:
    json.dump(measured, file)
sys.exit(code)
"""
