"""ONNX programs of real models: the tokens of the `.pte` files, and caches that are written where they lie.

ONNX Runtime warns when it copies what `TensorScatter` should write in place; its level of messages is lowered to
warnings here, and the control shows that a copy would be heard. `tests/parity/test_onnx_program.py` proves both on tiny
models, with caches so large that one more of them could not be missed.
"""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path

import pytest
import torch

from runtime_shims.contract.bundle_reader import Bundle
from runtime_shims.contract.manifest import Manifest
from runtime_shims.native import operator_library_path
from runtime_shims.reference import onnx_sessions
from runtime_shims.reference.loading import open_session
from runtime_shims.reference.native_stderr import captured_native_stderr
from runtime_shims.reference.request import SourceInput
from runtime_shims.reference.session import Session
from tests.parity.test_onnx_program import WARNING, bound_apart, resident_bytes
from tests.real.exports import CASES, SPELLINGS, Exports, script
from tests.real.summary import Summary
from tests.real.test_smollm2 import NEW_TOKENS, QUESTIONS
from tests.support.shared import THREADS

pytestmark = pytest.mark.real

ROWS = 2
WARM_UP, MOST_STEPS = 20, 200


@pytest.fixture(scope="module", autouse=True)
def _all_are_made_side_by_side(exports: Exports) -> None:
    exports.start((name, "onnx") for name in CASES)


def test_the_same_questions_give_the_same_answers_from_both_kinds_of_file(exports: Exports) -> None:
    questions = [argument for question in QUESTIONS for argument in ("--prompt", question)]
    forms = ("onnx", SPELLINGS[operator_library_path() is None])
    answers = []
    for form in forms:
        command = [script("run-model"), "generate", str(exports.bundle("smollm2", form).root), "--chat", *questions]
        command += ["--max-new-tokens", str(NEW_TOKENS), "--json"]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        answers.append([(row["tokens"], row["text"]) for row in json.loads(printed)["generations"]])
    assert answers[0] == answers[1]
    assert len(answers[0]) == len(QUESTIONS)


def any_source(manifest: Manifest) -> SourceInput | None:
    """The longest source of every row, if there are sources."""
    limits = manifest.limits
    if limits.source_shape is not None:
        return torch.randn(ROWS, *limits.source_shape, generator=torch.Generator().manual_seed(0))
    return None if limits.max_enc is None else [[7] * limits.max_enc] * ROWS


def half_full(bundle: Bundle) -> Session:
    """A session whose rows hold more than half of their positions: from there on a step reads whole caches."""
    session, limits = open_session(bundle, threads=THREADS), bundle.manifest.limits
    numbers, words = random.Random(3), bundle.manifest.tokens.vocab_size
    prompts = [[numbers.randrange(words) for _ in range(limits.max_dec // 2 + 8)] for _ in range(ROWS)]
    session.begin(prompts, any_source(bundle.manifest))
    session.prefill()
    return session


def take_steps(session: Session, count: int) -> None:
    for _ in range(count):
        session.step([[5]] * ROWS)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads the process's memory as Linux states it")
@pytest.mark.parametrize("name", CASES)
def test_no_cache_is_copied_and_steps_take_no_memory(
    name: str, exports: Exports, monkeypatch: pytest.MonkeyPatch, summary: Summary
) -> None:
    bundle = exports.bundle(name, "onnx")
    monkeypatch.setattr(onnx_sessions, "_SILENT", WARNING)
    with captured_native_stderr() as printed:
        session = half_full(bundle)
        take_steps(session, WARM_UP)
        steps = min(MOST_STEPS, bundle.manifest.limits.max_dec - session.length(0))
        before = resident_bytes()
        take_steps(session, steps)
        grown = resident_bytes() - before
    caches, limits = bundle.manifest.caches, bundle.manifest.limits
    smallest = min(cache.size_bytes for cache in caches) // 2 * ROWS // limits.max_batch  # keys alone, of the rows used
    summary.add(name, "onnx", f"{steps} steps took {grown / 1e3:,.0f} kB; the smallest cache has {smallest / 1e3:,.0f}")
    assert not [line for line in printed if "TensorScatter" in line]
    assert grown < smallest


def test_a_copied_cache_would_be_heard(exports: Exports, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_sessions, "_SILENT", WARNING)
    with captured_native_stderr() as printed:
        session = open_session(exports.bundle("smollm2", "onnx"), threads=THREADS)
        session.begin([[1, 2]] * ROWS)
        session.prefill()
        bound_apart(session._program, ROWS)
        take_steps(session, 1)
    assert [line for line in printed if "TensorScatter" in line]
