"""What is refused of ONNX programs: damaged files, other manifests, and packages that are missing or too old."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import onnx
import pytest
import torch

from exporter.lower import onnx as lowering
from exporter.planned import plan_export
from exporter.spec.faults import SpecError
from exporter.spec.recipe import Recipe
from exporter.trace.functional_checks import cache_inputs, functional_faults
from runtime_shims.commands.verify import _graphs_rung
from runtime_shims.contract.bundle_reader import read_bundle
from runtime_shims.contract.errors import BundleCorrupt, ManifestInvalid, UnsupportedSetting, UserInputError
from runtime_shims.contract.manifest import Manifest
from runtime_shims.reference.native_stderr import captured_native_stderr
from runtime_shims.reference.onnx_program import OnnxProgram
from runtime_shims.reference.onnx_sessions import is_older, load_runtime
from tests.parity.programs import LLAMA_ONNX, Lowered, on
from tests.parity.support import Planned


def copied(lowered: Lowered, target: Path) -> Path:
    return shutil.copytree(lowered.bundle.root, target)


def load(root: Path) -> None:
    bundle = read_bundle(root, check_hashes=False)
    OnnxProgram(bundle, bundle.program(), 1)


def refused_line(root: Path, kind: type[Exception]) -> str:
    with pytest.raises(kind) as refusal, captured_native_stderr() as printed:
        load(root)
    assert printed == []
    assert "\n" not in str(refusal.value)
    return str(refusal.value)


@on(LLAMA_ONNX)
def test_an_opset_that_the_runtime_does_not_know_is_refused_with_the_version_that_does(
    lowered: Lowered, tmp_path: Path
) -> None:
    root = copied(lowered, tmp_path / "my.bundle")
    rewrite(root, lambda model: setattr(model.opset_import[0], "version", 99))
    line = refused_line(root, UnsupportedSetting)
    assert line.startswith("decode.onnx needs more than onnxruntime ")
    assert "this release writes opset 24; install a newer onnxruntime" in line
    assert "pset 99" in line


def rewrite(root: Path, change: Callable[[onnx.ModelProto], object]) -> None:
    """Change a graph, and its size in the manifest."""
    model = onnx.load(str(root / "decode.onnx"), load_external_data=False)
    change(model)
    (root / "decode.onnx").write_bytes(model.SerializeToString())
    fit_sizes(root)


def fit_sizes(root: Path) -> None:
    manifest = json.loads((root / "manifest.json").read_text())
    for entry in manifest["files"]:
        entry["size_bytes"] = (root / entry["path"]).stat().st_size
    (root / "manifest.json").write_text(json.dumps(manifest))


@on(LLAMA_ONNX)
@pytest.mark.parametrize("damage", ["cut", "emptied", "zeros"])
def test_a_damaged_graph_is_refused_in_one_line(lowered: Lowered, tmp_path: Path, damage: str) -> None:
    root = copied(lowered, tmp_path / "my.bundle")
    data = (root / "decode.onnx").read_bytes()
    changed = {"cut": data[: len(data) // 2], "emptied": b"", "zeros": bytes(len(data))}[damage]
    (root / "decode.onnx").write_bytes(changed)
    fit_sizes(root)
    line = refused_line(root, BundleCorrupt)
    assert line.startswith("decode.onnx: ONNX Runtime cannot load it (")
    assert line.endswith("; copy the bundle again or export the model again")


@on(LLAMA_ONNX)
def test_missing_weights_are_refused_before_and_while_a_program_is_loaded(lowered: Lowered, tmp_path: Path) -> None:
    root = copied(lowered, tmp_path / "my.bundle")
    bundle = read_bundle(root)
    (root / "weights.bin").unlink()
    assert "weights.bin is missing" in refused_line(root, BundleCorrupt)
    with pytest.raises(BundleCorrupt, match=r"decode\.onnx: ONNX Runtime cannot load it \(.*weights\.bin") as refusal:
        OnnxProgram(bundle, bundle.program(), 1)
    assert "\n" not in str(refusal.value)
    (root / "weights.bin").write_bytes(b"few")
    fit_sizes(root)
    assert "cannot load it" in refused_line(root, BundleCorrupt)


def longer(manifest: Manifest) -> Manifest:
    return replace(manifest, caches=tuple(replace(entry, slots=entry.slots + 1) for entry in manifest.caches))


def fewer(manifest: Manifest) -> Manifest:
    return replace(manifest, caches=manifest.caches[:-1])


def renamed(manifest: Manifest) -> Manifest:
    return replace(manifest, caches=(replace(manifest.caches[0], name="self.9", layer=9), *manifest.caches[1:]))


def planned(manifest: Manifest) -> Manifest:
    (program,) = manifest.programs
    return replace(manifest, programs=(replace(program, planned_bytes=program.planned_bytes + 1),))


def wider(manifest: Manifest) -> Manifest:
    """More rows of a step, and what follows from it, without a change of any size in a graph."""
    limits = manifest.limits
    limits = replace(limits, max_dec=limits.max_dec + 2, max_step=limits.max_step - 2)
    return replace(manifest, limits=limits)


def nearer(manifest: Manifest) -> Manifest:
    """A smaller reach lets more be rolled back than the ring holds."""
    caches = tuple(replace(entry, reach=entry.reach - 1) for entry in manifest.caches)
    return replace(manifest, caches=caches)


@on(LLAMA_ONNX)
@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (wider, "programs[0], decode, max_dec: 514 here, 512 in the program"),
        (nearer, "programs[0], decode, reach: 511,511 here, 512,512 in the program"),
        (longer, "programs[0], decode, inputs: past_key_values.0.key tensor(float)[b, 2, 517, 12] here, past_key_"),
        (fewer, "programs[0], decode, inputs: 6 are listed, the program has 8"),
        (renamed, "programs[0], decode, outputs: present.9.key tensor(float)[b, 2, 516, 12] here, present.0"),
        (planned, "programs[0].planned_bytes: "),
    ],
)
def test_a_manifest_of_another_program_is_refused(
    lowered: Lowered, change: Callable[[Manifest], Manifest], fault: str
) -> None:
    bundle = replace(lowered.bundle, manifest=change(lowered.bundle.manifest))
    with pytest.raises(ManifestInvalid) as refusal:
        OnnxProgram(bundle, bundle.program(), 1)
    assert any(found.startswith(fault) for found in refusal.value.faults), refusal.value.faults


@on(LLAMA_ONNX)
def test_a_runtime_that_is_not_installed_is_said_in_one_line(
    lowered: Lowered, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(UnsupportedSetting, match=r"onnxruntime is not installed.*fixed-capacity\[onnx\]") as refusal:
        OnnxProgram(lowered.bundle, lowered.bundle.program())
    assert "\n" not in str(refusal.value)


def test_an_export_without_the_packages_is_refused_before_a_model_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("exporter.planned.find_spec", lambda name: None)
    with pytest.raises(SpecError) as refusal:
        plan_export(Recipe("./no-such-model", backends=("onnx",)))
    wanted = "--backend onnx: onnxscript and onnxruntime not installed; install fixed-capacity[onnx], or use another"
    assert str(refusal.value).startswith(wanted)


@on(LLAMA_ONNX)
def test_no_threads_are_refused(lowered: Lowered) -> None:
    with pytest.raises(UserInputError, match="--threads must be at least 1, got 0"):
        OnnxProgram(lowered.bundle, lowered.bundle.program(), 0)


def test_the_checker_refuses_a_graph_whose_shapes_contradict_each_other(tmp_path: Path) -> None:
    """The control of the check at every export and in `verify`: shapes are inferred, not only the file's form read."""
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Transpose", ["a"], ["b"], perm=[1, 0])],
        "decode",
        [value("a", onnx.TensorProto.FLOAT, [2, 3])],
        [value("b", onnx.TensorProto.FLOAT, [2, 3])],
    )
    opset = onnx.helper.make_opsetid("", 24)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[opset]), str(tmp_path / "decode.onnx"))
    with pytest.raises(lowering.OnnxCheckError, match=r"^decode\.onnx: .*") as refusal:
        lowering._check(tmp_path / "decode.onnx")
    assert "\n" not in str(refusal.value)


def test_a_graph_that_reads_a_cache_apart_from_its_write_or_keeps_it_is_refused() -> None:
    program = Planned.of("llama", "onnx").traced["decode"]
    assert functional_faults(program) == []
    keys, values = cache_inputs(program)[:2]
    output = program.graph.output_node()
    with program.graph.inserting_before(output):
        program.graph.call_function(torch.ops.aten.neg.default, (keys,))
    (write,) = (user for user in values.users if "scatter_slots" in str(user.target))
    output.replace_input_with(write, values)
    faults = functional_faults(program)
    assert faults[0].startswith("reads the cache caches_0_0 through aten.neg.default, what a runtime that writes")
    assert faults[1] == "does not return the cache caches_0_1 that it writes"
    assert len(faults) == 3  # and the output, which is a read


@on(LLAMA_ONNX)
def test_verify_refuses_a_graph_that_states_a_false_shape(lowered: Lowered, tmp_path: Path) -> None:
    root = copied(lowered, tmp_path / "my.bundle")
    bundle = read_bundle(root)
    assert _graphs_rung(bundle, bundle.program()).passed
    rewrite(root, widen_a_cache)
    rung = _graphs_rung(bundle, bundle.program())
    assert rung.passed is False
    assert rung.detail.startswith("decode.onnx: ")
    assert "\n" not in rung.detail


def widen_a_cache(model: onnx.ModelProto) -> None:
    """State that a cache comes back with one slot more."""
    model.graph.output[1].type.tensor_type.shape.dim[2].dim_value += 1


@pytest.mark.parametrize("version", ["1.26.0", "1.9.1"])
def test_a_runtime_that_may_answer_something_else_is_refused_by_its_version(
    monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    """1.26 loads these programs, and gave other tokens with an embedding of 4 bits."""
    monkeypatch.setattr("onnxruntime.__version__", version)
    with pytest.raises(UnsupportedSetting, match=rf"onnxruntime {version} is too old .* install onnxruntime 1\.27"):
        load_runtime()


def test_versions_are_compared_by_their_numbers() -> None:
    assert is_older("1.9.3", "1.27")
    assert not any(is_older(version, "1.27") for version in ("1.27.0", "1.32.1.dev2", "2.0"))
