"""What ONNX programs do beyond answering as stock models do: write in place, refuse, be small, run anywhere."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch

from exporter.lower import onnx as lowering
from exporter.pipeline import export_bundle
from exporter.planned import plan_export
from exporter.spec.faults import SpecError
from exporter.spec.recipe import Recipe
from runtime_shims.cli import main
from runtime_shims.contract.bundle_reader import Bundle, read_bundle
from runtime_shims.contract.errors import BundleCorrupt, ManifestInvalid, UnsupportedSetting, UserInputError
from runtime_shims.contract.manifest import Manifest
from runtime_shims.reference import onnx_program
from runtime_shims.reference.generation import generate
from runtime_shims.reference.loading import open_session
from runtime_shims.reference.native_stderr import captured_native_stderr
from runtime_shims.reference.onnx_program import OnnxProgram
from runtime_shims.reference.program import StepInputs
from tests.parity.programs import LLAMA_ONNX, T5_ONNX, WHISPER_ONNX, Lowered, on
from tests.support import tiny_models
from tests.support.letters import letter_tokenizer

PROMPTS = [[5, 9, 30, 41, 7, 8, 22], [11], [50, 51, 52]]
WARNING = 2  # ONNX Runtime's level of warnings


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of tiny Llama with a program for ExecuTorch and one for ONNX Runtime."""
    directory = tmp_path_factory.mktemp("both")
    tiny_models.build("llama").save_pretrained(directory / "llama")
    letter_tokenizer(tiny_models.tiny_configs.VOCAB).save_pretrained(directory / "llama")
    recipe = Recipe(
        str(directory / "llama"), max_batch=4, max_dec=48, max_draft=3, prefill_chunk=6, backends=("portable", "onnx")
    )
    report = export_bundle(recipe, directory / "my.bundle")
    assert report.attention == "portable"
    assert report.logits_difference is not None
    return directory / "my.bundle"


def test_the_same_prompts_give_the_same_tokens_from_both_programs(both: Path) -> None:
    answers = [
        [row.tokens for row in generate(open_session(read_bundle(both), backend), PROMPTS, max_new_tokens=30)]
        for backend in ("portable", "onnx")
    ]
    assert answers[0] == answers[1]
    assert [len(tokens) for tokens in answers[0]] == [30, 30, 30]


def test_every_command_runs_an_onnx_program(both: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def printed(*arguments: str) -> Any:
        assert main([arguments[0], str(both), *arguments[1:], "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    prompt = ("-p", "hello", "--backend", "onnx", "--max-new-tokens", "12", "--threads", "1")
    plain = printed("generate", *prompt)
    drafted = printed("generate", *prompt, "--speculate", "prompt-lookup")
    assert drafted["generations"] == plain["generations"]
    assert {rung["subject"] for rung in printed("verify")["rungs"]} == {"bundle", "portable", "onnx"}
    assert printed("bench", "--backend", "onnx", "--threads", "1", "--repeats", "2")["threads"] == 1
    assert main(["inspect", str(both)]) == 0
    assert "onnx for onnx, portable attention" in capsys.readouterr().out


def test_a_bundle_runs_in_a_plain_session(both: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "examples"))
    found = import_module("onnx_plain_session").generate(str(both), PROMPTS[0])
    (wanted,) = generate(open_session(read_bundle(both), "onnx"), PROMPTS[:1], max_new_tokens=8)
    assert tuple(found) == wanted.tokens


# Writing in place


def many_rows(bundle: Bundle, rows: int) -> Bundle:
    """The bundle with a larger batch: the graphs have no limit of their own."""
    manifest = bundle.manifest
    factor = rows // manifest.limits.max_batch
    caches = tuple(replace(entry, size_bytes=factor * entry.size_bytes) for entry in manifest.caches)
    (program,) = manifest.programs
    changed = replace(
        manifest,
        limits=replace(manifest.limits, max_batch=rows),
        caches=caches,
        memory=replace(manifest.memory, cache_bytes=factor * manifest.memory.cache_bytes),
        programs=(replace(program, planned_bytes=factor * program.planned_bytes),),
    )
    return replace(bundle, manifest=changed)


def one_token(rows: int, position: int) -> StepInputs:
    ones = torch.ones(rows, dtype=torch.int64)
    return StepInputs(5 * ones[:, None], position * ones, ones, 0 * ones[:, None], None)


def bound_apart(program: OnnxProgram, rows: int) -> None:
    """The control: every cache comes back in memory of its own."""
    method = program._methods["decode"]
    method._written = [(name, torch.empty_like(cache)) for name, cache in method._written]
    method._bindings.clear()


def resident_bytes() -> int:
    """Memory of this process now; the runtime's arena keeps what it took."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads the process's memory as Linux states it")
@on(LLAMA_ONNX)
@pytest.mark.parametrize("apart", [False, True], ids=["in place", "control"])
def test_steps_take_no_memory_for_caches(lowered: Lowered, apart: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """800 rows: each of four caches has 40 MB. Fresh memory for one would be seen in the process, and in a warning."""
    rows = 800
    bundle = many_rows(lowered.bundle, rows)
    monkeypatch.setattr(onnx_program, "_SILENT", WARNING)
    with captured_native_stderr() as printed:
        program = OnnxProgram(bundle, bundle.program(), 1)
        program.reset()  # every page is in memory before anything is measured
        if apart:
            bound_apart(program, rows)
        places = [cache.data_ptr() for cache in program._caches.values()]
        smallest = min(cache.nbytes for cache in program._caches.values())
        before = resident_bytes()
        for position in (0, 1, 2, 300):
            program.decode(one_token(rows, position))
        grown = resident_bytes() - before
    assert [cache.data_ptr() for cache in program._caches.values()] == places
    assert smallest > 30_000_000
    assert (grown < smallest) is not apart, grown
    assert any("TensorScatter" in line for line in printed) is apart, printed


@on(LLAMA_ONNX)
def test_a_step_changes_its_slot_and_no_other(lowered: Lowered) -> None:
    program = OnnxProgram(lowered.bundle, lowered.bundle.program(), 1)
    program.decode(one_token(2, 7))
    for cache in program._caches.values():
        written = cache.abs().amax(dim=(1, 3)).nonzero().tolist()
        assert written == [[0, 7], [1, 7]]


@on(LLAMA_ONNX)
def test_a_call_of_one_row_binds_one_row(lowered: Lowered) -> None:
    program = OnnxProgram(lowered.bundle, lowered.bundle.program(), 1)
    for cache in program._caches.values():
        cache[1:] = torch.nan
    assert torch.isfinite(program.decode(one_token(1, 7))).all()
    assert not torch.isfinite(program.decode(one_token(2, 7))).all()


# Files


def test_weights_are_stored_once_and_files_are_hardly_larger(tmp_path: Path) -> None:
    """A tied embedding, and an encoder-decoder's embedding that three graphs' worth of parts share."""
    config = tiny_models.tiny_configs.t5()
    config.vocab_size, config.d_model, config.d_ff = 20_000, 128, 512
    from transformers import T5ForConditionalGeneration

    torch.manual_seed(0)
    T5ForConditionalGeneration(config).save_pretrained(tmp_path / "t5")
    recipe = Recipe(str(tmp_path / "t5"), max_enc=16, max_dec=16, backends=("onnx",))
    report = export_bundle(recipe, tmp_path / "my.bundle", verify=False, greedy=True)
    assert config.tie_word_embeddings
    written = sum((tmp_path / "my.bundle" / name).stat().st_size for name in FILES)
    assert report.programs == {"decode.onnx": written}
    assert report.weights_bytes > 10_000_000
    assert report.weights_bytes <= written <= 1.03 * report.weights_bytes


FILES = ("decode.onnx", "encode.onnx", "weights.bin")


@on(T5_ONNX, WHISPER_ONNX, LLAMA_ONNX)
def test_graphs_hold_standard_operators_and_no_path_of_this_machine(lowered: Lowered) -> None:
    for path in lowered.bundle.root.glob("*.onnx"):
        model = onnx.load(str(path), load_external_data=False)
        assert [(found.domain, found.version) for found in model.opset_import] == [("", 24)]
        assert {node.domain for node in model.graph.node} == {""}
        assert not model.functions
        data = path.read_bytes()
        assert str(Path(__file__).parents[2]).encode() not in data
        assert b"site-packages" not in data


# Refusals


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
    assert "install onnxruntime 1.27 or later" in line
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
    return replace(manifest, caches=(replace(manifest.caches[0], name="self.9"), *manifest.caches[1:]))


def planned(manifest: Manifest) -> Manifest:
    (program,) = manifest.programs
    return replace(manifest, programs=(replace(program, planned_bytes=program.planned_bytes + 1),))


@on(LLAMA_ONNX)
@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (longer, "programs[0], decode, inputs: past.self.0.key tensor(float)[b, 2, 517, 12] here, past.self.0.key "),
        (fewer, "programs[0], decode, inputs: 6 are listed, the program has 8"),
        (renamed, "programs[0], decode, outputs: present.self.9.key tensor(float)[b, 2, 516, 12] here, present.self.0"),
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
    """The control of the check at every export: shapes are inferred, not only the form of the file read."""
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
