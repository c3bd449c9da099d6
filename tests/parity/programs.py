"""The program files that tests share: few, because lowering one takes half a minute."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path

import pytest
from filelock import FileLock

from exporter.bundle.manifest_builder import ONNX_PACKAGES, PACKAGES
from runtime_shims.contract.bundle_reader import Bundle, read_bundle
from runtime_shims.native import operator_library_path
from runtime_shims.reference.loading import load_program
from runtime_shims.reference.program import Program
from runtime_shims.reference.session import Session
from tests.parity.schedules import Answer, Request, compare
from tests.parity.support import Capacity, Drafter, Planned, StockModel

REPOSITORY = Path(__file__).parents[2]
SOURCES = ("exporter", "runtime_shims/contract", "tests/support")
KEPT = "FIXED_CAPACITY_TEST_PROGRAMS"  # a directory that outlives the run, for those who run these tests often


@dataclass(frozen=True)
class ProgramCase:
    """One program file: a tiny model, a spelling, a backend and its limits."""

    case: str
    attention: str
    backend: str
    capacity: Capacity
    drafter: Drafter = None

    def __str__(self) -> str:
        return f"{self.case}-{self.attention}-{self.backend}" + (f"-{self.drafter}" if self.drafter else "")


T5 = ProgramCase("t5", "fused", "xnnpack", Capacity(max_batch=8, max_enc=512, max_dec=100))
WHISPER = ProgramCase("whisper", "fused", "xnnpack", Capacity(max_batch=3, max_dec=100))
GEMMA = ProgramCase("gemma3", "fused", "xnnpack", Capacity())
GEMMA_PORTABLE = ProgramCase("gemma3", "portable", "xnnpack", Capacity())
LLAMA_PORTABLE = ProgramCase("llama", "portable", "portable", Capacity(max_batch=8, max_dec=512))
T5_ONNX = ProgramCase("t5", "portable", "onnx", Capacity(max_batch=8, max_enc=512, max_dec=100))
WHISPER_ONNX = ProgramCase("whisper", "portable", "onnx", Capacity(max_batch=3, max_dec=100))
GEMMA_ONNX = ProgramCase("gemma3", "portable", "onnx", Capacity())
LLAMA_ONNX = ProgramCase("llama", "portable", "onnx", Capacity(max_batch=8, max_dec=512))
MOONSHINE = ProgramCase("moonshine", "fused", "xnnpack", Capacity(max_batch=3, max_enc=60, max_dec=100))
MOONSHINE_ONNX = ProgramCase("moonshine", "portable", "onnx", Capacity(max_batch=3, max_enc=60, max_dec=100))
GEMMA4 = ProgramCase("gemma4", "fused", "xnnpack", Capacity(), "plain")
GEMMA4_ONNX = ProgramCase("gemma4", "portable", "onnx", Capacity(), "plain")
ONNX_PROGRAMS = (T5_ONNX, WHISPER_ONNX, GEMMA_ONNX, LLAMA_ONNX)
EXECUTORCH_PROGRAMS = (T5, WHISPER, GEMMA, GEMMA_PORTABLE, LLAMA_PORTABLE)
PROGRAMS = (*EXECUTORCH_PROGRAMS, *ONNX_PROGRAMS)
T5_PORTABLE = ProgramCase("t5", "portable", "xnnpack", Capacity())  # these two are traced and never lowered
WHISPER_PORTABLE = ProgramCase("whisper", "portable", "xnnpack", Capacity())


def on(*cases: ProgramCase) -> pytest.MarkDecorator:
    """Run a test on each of these programs, as its `lowered`; fused attention needs the operator library."""
    missing = operator_library_path() is None
    skip = pytest.mark.skipif(missing, reason="the C++ operator library is not installed")
    marked = [pytest.param(case, id=str(case), marks=skip if case.attention == "fused" else ()) for case in cases]
    return pytest.mark.parametrize("lowered", marked, indirect=True)


@dataclass
class Lowered:
    """A program file, loaded once per process, and the stock model it must equal."""

    program_case: ProgramCase
    bundle: Bundle

    @cached_property
    def program(self) -> Program:
        return load_program(self.bundle, self.bundle.program())

    @cached_property
    def session(self) -> Session:
        return Session(self.bundle, self.program)

    @cached_property
    def stock(self) -> StockModel:
        return StockModel(self.program_case.case)

    def request(self, lengths: Sequence[int], sources: Sequence[int] = (), seed: int = 0) -> Request:
        """Random texts of these lengths; source lengths matter to text encoders only."""
        return Request.random(self.stock, lengths, sources, seed)

    def check(self, answers: Iterable[Answer], request: Request) -> None:
        """Every answer equals the stock model's within the backend's tolerance."""
        found = compare(answers, request.expected(self.stock), self.program_case.backend)
        assert found.passed, found


class ProgramStore:
    """Lowers each program once for all worker processes of a test run, and loads it once per process."""

    def __init__(self, directory: Path) -> None:
        self.directory = Path(os.environ.get(KEPT) or directory) / _sources_digest()
        self._planned: dict[ProgramCase, Planned] = {}
        self._lowered: dict[ProgramCase, Lowered] = {}

    def planned(self, case: ProgramCase) -> Planned:
        """The plan, method modules and traces of a program; the traces are shared with its lowering."""
        if case not in self._planned:
            self._planned[case] = Planned.of(
                case.case, case.attention, case.capacity, backend=case.backend, drafter=case.drafter
            )
        return self._planned[case]

    def lowered(self, case: ProgramCase) -> Lowered:
        if case not in self._lowered:
            self._lowered[case] = Lowered(case, self.bundle(case))
        return self._lowered[case]

    def bundle(self, case: ProgramCase) -> Bundle:
        """A bundle of the program alone: manifest and program file, no tokenizer, no golden answers."""
        target = self.directory / f"{case}-{hashlib.sha256(repr(case).encode()).hexdigest()[:8]}"
        self.directory.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{target}.lock"):
            if not target.is_dir():
                aside = target.with_suffix(f".{os.getpid()}")
                aside.mkdir()
                self.planned(case).lower(aside)
                aside.rename(target)
        return read_bundle(target)


def _sources_digest() -> str:
    """Digest of every source file and package version that decides what a program file holds."""
    digest = hashlib.sha256(" ".join(version(name) for name in (*PACKAGES, *ONNX_PACKAGES)).encode())
    for folder in SOURCES:
        for path in sorted((REPOSITORY / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
