"""The manifest says what was planned and written, in the form that the strict reader takes."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from transformers import GenerationConfig

from exporter.bundle.manifest_builder import PACKAGES, Exported, build_manifest, memory_plan
from exporter.lower.program_file import LoweredProgram
from exporter.planned import plan_export
from exporter.spec.recipe import Recipe
from exporter.trace.methods import program_methods
from runtime_shims.contract.manifest import Dim, FileEntry, Manifest, from_json, to_json
from tests.support.tiny_models import CASES

DIGEST = "0" * 64


def exported(directory: Path, name: str, planned_bytes: tuple[int, ...] = (50_000,), **limits: Any) -> Exported:
    """An export of tiny model `name` whose programs were never lowered."""
    checkpoint = directory / "my-checkpoint"
    CASES[name].config().save_pretrained(checkpoint)
    GenerationConfig(decoder_start_token_id=3, eos_token_id=1, no_timestamps_token_id=9).save_pretrained(checkpoint)
    attention = limits.pop("attention", "portable")
    backends = ("xnnpack", "portable")[: len(planned_bytes)]
    planned = plan_export(Recipe(str(checkpoint), attention=attention, backends=backends, **limits))
    programs = tuple(
        LoweredProgram(directory / f"model.{backend}.pte", backend, attention, 10, size)
        for backend, size in zip(backends, planned_bytes, strict=True)
    )
    return Exported(planned.source, planned.spec, planned.plan, planned.rules, program_methods(planned.plan), programs)


def manifest_of(export: Exported) -> Manifest:
    """The manifest, through the strict writer and reader."""
    files = tuple(FileEntry(program.path.name, "program", DIGEST, 10) for program in export.programs)
    return from_json(to_json(build_manifest(export, files)))


@pytest.mark.parametrize("name", CASES)
def test_the_manifest_of_every_family_passes_the_strict_reader(tmp_path: Path, name: str) -> None:
    manifest = manifest_of(exported(tmp_path, name, max_batch=2, max_dec=24))
    assert manifest.kind == CASES[name].kind
    assert manifest.source.model_type == CASES[name].config().model_type
    assert [method.name for method in manifest.programs[0].methods] == (
        ["decode"] if manifest.kind == "decoder_only" else ["encode", "decode"]
    )


def test_no_path_of_the_exporting_machine_gets_in(tmp_path: Path) -> None:
    export = exported(tmp_path, "llama", max_dec=24)
    text = to_json(manifest_of(export))
    assert str(tmp_path) not in text
    assert manifest_of(export).recipe.model == manifest_of(export).source.model == "my-checkpoint"


def test_dynamic_dimensions_carry_their_bounds_and_single_rows_are_static(tmp_path: Path) -> None:
    limits = {"max_dec": 24, "max_draft": 2, "prefill_chunk": 4}
    (decode,) = manifest_of(exported(tmp_path, "llama", max_batch=3, **limits)).programs[0].methods
    assert [tensor.name for tensor in decode.inputs] == ["input_ids", "positions", "step_lengths", "logit_rows"]
    assert decode.inputs[0].dims == (Dim("b", 1, 3), Dim("t", 1, 4))
    assert decode.outputs[0].dims == (Dim("b", 1, 3), Dim("r", 1, 3), Dim(None, 64, 64))
    (single,) = manifest_of(exported(tmp_path, "llama", max_batch=1, **limits)).programs[0].methods
    assert single.inputs[0].dims[0] == Dim(None, 1, 1)


def test_planned_memory_is_that_of_the_hungriest_program(tmp_path: Path) -> None:
    export = exported(tmp_path, "llama", planned_bytes=(50_000, 70_000), max_dec=24)
    memory = manifest_of(export).memory
    assert memory.planned_bytes == 70_000
    assert memory.cache_bytes == export.plan.cache_bytes
    assert memory.activation_bytes == 70_000 - export.plan.cache_bytes
    assert memory_plan(export.plan, (LoweredProgram(tmp_path, "xnnpack", "fused", 1, 1),)).activation_bytes == 0


@pytest.mark.parametrize("attention", ["fused", "portable"])
def test_the_operator_library_is_required_by_fused_programs_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attention: str
) -> None:
    from runtime_shims import native

    monkeypatch.setattr(native, "operator_library_path", lambda: Path("ops.so"))
    (program,) = manifest_of(exported(tmp_path, "llama", max_dec=24, attention=attention)).programs
    assert program.operator_library_required is (attention == "fused")
    assert program.attention == attention


def test_a_seed_is_named_for_random_weights_only(tmp_path: Path) -> None:
    assert manifest_of(exported(tmp_path, "llama", max_dec=24, seed=7)).source.seed is None
    source = manifest_of(exported(tmp_path, "llama", max_dec=24, seed=7, random_weights=True)).source
    assert (source.random_weights, source.seed) == (True, 7)


def test_the_packages_that_took_part_are_named_with_their_versions(tmp_path: Path) -> None:
    packages = manifest_of(exported(tmp_path, "llama", max_dec=24)).packages
    assert {package.name: package.version for package in packages} == {name: version(name) for name in PACKAGES}
