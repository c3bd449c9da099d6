"""Bundles for the tests of bundle-runner, exported once: the trained small T5, a windowed decoder, their drafts, and
the same for ONNX Runtime with a Whisper."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from exporter.pipeline import export_bundle
from exporter.spec.recipe import Recipe
from runtime_shims.contract.manifest_rules import SELF_INT4
from runtime_shims.native import operator_library_path
from tests.parity.programs import GEMMA4, GEMMA4_ONNX, MOONSHINE, MOONSHINE_ONNX, ProgramCase, ProgramStore
from tests.runner.runner import RUNS_ONNX, TOOL, Runner
from tests.support.letters import letter_tokenizer
from tests.support.shared import made_once, shared_directory
from tests.support.small_t5 import LONGEST, SMALL_T5
from tests.support.tiny_configs import VOCAB
from tests.support.tiny_models import build, extractor

if not TOOL.is_file() and os.environ.get("FIXED_CAPACITY_REQUIRE_NATIVE") != "1":
    collect_ignore_glob = ["test_*.py"]  # no C++ compiler; where there is one, `make test-cpp` has built the tool


def endless(bundle: Path) -> Path:
    """A copy without an end-of-sequence token, so that rows run on and windows wrap."""

    def make(copy: Path) -> None:
        shutil.copytree(bundle, copy, copy_function=os.link)
        edit(copy, lambda manifest: manifest["tokens"].update(eos=[]))

    return made_once(bundle.with_name(f"endless-{bundle.name}"), make)


def edit(bundle: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a bundle's manifest, which may be a link to another's."""
    path = bundle / "manifest.json"
    manifest = json.loads(path.read_text("utf-8"))
    change(manifest)
    path.unlink()
    path.write_text(json.dumps(manifest), encoding="utf-8")


@pytest.fixture(scope="session")
def runner() -> Runner:
    return Runner()


@pytest.fixture(scope="session")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shared_directory(tmp_path_factory, "runner")


def export(recipe: Recipe, target: Path) -> Path:
    return made_once(target, lambda path: export_bundle(recipe, path))


@pytest.fixture(scope="session")
def small_t5(shelf: Path) -> Path:
    """Reverses strings; eight rows. It holds its own draft: itself, in 4 bits where our operators are."""
    draft = SELF_INT4 if operator_library_path() is not None else str(SMALL_T5)
    limits = {"max_batch": 8, "max_enc": LONGEST + 1, "max_dec": LONGEST + 8, "max_draft": 4, "prefill_chunk": 2}
    return export(Recipe(str(SMALL_T5), draft=draft, **limits), shelf / "t5.bundle")


@pytest.fixture(scope="session")
def small_t5_draft(shelf: Path) -> Path:
    limits = {"max_batch": 8, "max_enc": LONGEST + 1, "max_dec": LONGEST + 8, "max_draft": 0, "prefill_chunk": 5}
    return export(Recipe(str(SMALL_T5), quantize=_quantize(), **limits), shelf / "t5-draft.bundle")


@pytest.fixture(scope="session")
def gemma3(shelf: Path) -> Path:
    """Two kinds of layers, a window of 8, random weights; four rows. It ends nowhere."""
    made_once(shelf / "gemma3", build("gemma3").save_pretrained)
    recipe = Recipe(str(shelf / "gemma3"), max_batch=4, max_dec=120, max_draft=7, prefill_chunk=5)
    return endless(export(recipe, shelf / "gemma3.bundle"))


@pytest.fixture(scope="session")
def gemma3_draft(shelf: Path, gemma3: Path) -> Path:
    recipe = Recipe(str(shelf / "gemma3"), max_batch=4, max_dec=120, max_draft=0, prefill_chunk=9, quantize=_quantize())
    return endless(export(recipe, shelf / "gemma3-draft.bundle"))


@pytest.fixture(scope="session")
def narrow_draft(shelf: Path, gemma3: Path) -> Path:
    """Two rows and half of the positions; other token rules than the target's."""
    recipe = Recipe(str(shelf / "gemma3"), max_batch=2, max_dec=60, max_draft=0, prefill_chunk=3)
    draft = endless(export(recipe, shelf / "narrow-draft.bundle"))

    def make(copy: Path) -> None:
        shutil.copytree(draft, copy, copy_function=os.link)
        edit(copy, lambda manifest: manifest["tokens"].update(suppress=list(range(2, 40))))

    return made_once(draft.with_name("suppressing-draft.bundle"), make)


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> ProgramStore:
    """Those that the parity tests lower."""
    return ProgramStore(shared_directory(tmp_path_factory, "programs"))


@pytest.fixture(scope="session", params=[GEMMA4, GEMMA4_ONNX], ids=str)
def assisted(programs: ProgramStore, request: pytest.FixtureRequest) -> Path:
    """A Gemma 4 and its assistant in one program, random weights; four rows. It ends nowhere."""
    return endless(bundle_of(programs, request.param))


@pytest.fixture(scope="session", params=[MOONSHINE, MOONSHINE_ONNX], ids=str)
def hearing(programs: ProgramStore, request: pytest.FixtureRequest) -> Path:
    """Hears up to a second and a half, random weights; three rows. It ends nowhere."""
    return endless(bundle_of(programs, request.param))


def bundle_of(programs: ProgramStore, case: ProgramCase) -> Path:
    """A shared program's bundle, where what it needs is installed."""
    if case.attention == "fused" and operator_library_path() is None:
        pytest.skip("the C++ operator library is not installed")
    if case.backend == "onnx" and not RUNS_ONNX:
        pytest.skip("bundle-runner was built without FIXED_CAPACITY_ONNXRUNTIME")
    return programs.bundle(case).root


def export_onnx(model: Path, target: Path, **limits: Any) -> Path:
    return export(Recipe(str(model), backends=("onnx",), **limits), target)


@pytest.fixture(scope="session")
def onnx_t5(shelf: Path) -> Path:
    """Reverses strings; eight rows, indices of 32 bits. It drafts for itself."""
    limits = {"max_batch": 8, "max_enc": LONGEST + 1, "max_dec": LONGEST + 8, "max_draft": 4, "prefill_chunk": 2}
    return export_onnx(SMALL_T5, shelf / "onnx-t5.bundle", draft=str(SMALL_T5), index_dtype="int32", **limits)


@pytest.fixture(scope="session")
def onnx_gemma3(shelf: Path, gemma3: Path) -> Path:
    """Two kinds of layers, a window of 8, random weights; four rows. It ends nowhere."""
    limits = {"max_batch": 4, "max_dec": 120, "max_draft": 7, "prefill_chunk": 5}
    return endless(export_onnx(gemma3.parent / "gemma3", shelf / "onnx-gemma3.bundle", **limits))


@pytest.fixture(scope="session")
def onnx_draft(shelf: Path, gemma3: Path) -> Path:
    """The same model in half precision, with three rows and half of the positions."""
    limits = {"max_batch": 3, "max_dec": 60, "max_draft": 0, "prefill_chunk": 3}
    model, target = gemma3.parent / "gemma3", shelf / "onnx-draft.bundle"
    return endless(export_onnx(model, target, dtype="float16", **limits))


@pytest.fixture(scope="session")
def onnx_whisper(shelf: Path) -> Path:
    """Hears one second; three rows, random weights."""

    def make(model: Path) -> None:
        build("whisper").save_pretrained(model)
        extractor().save_pretrained(model)

    made_once(shelf / "whisper", make)
    limits = {"max_batch": 3, "max_dec": 60, "max_draft": 3, "prefill_chunk": 4}
    return endless(export_onnx(shelf / "whisper", shelf / "onnx-whisper.bundle", **limits))


@pytest.fixture(scope="session")
def onnx_llama(shelf: Path) -> Path:
    """800 rows of 517 slots in each of four caches."""

    def make(model: Path) -> None:
        build("llama").save_pretrained(model)
        letter_tokenizer(VOCAB).save_pretrained(model)

    made_once(shelf / "llama", make)
    limits = {"max_batch": 800, "max_dec": 512, "max_draft": 0, "prefill_chunk": 6}
    return export_onnx(shelf / "llama", shelf / "onnx-llama.bundle", **limits)


def _quantize() -> str:
    """Integer weights need our operators; without them a draft is the model itself."""
    return "8da8w" if operator_library_path() is not None else "none"
