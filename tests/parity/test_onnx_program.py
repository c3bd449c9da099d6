"""What ONNX programs do beyond answering as stock models do: write in place, be small, run anywhere."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch

from exporter.pipeline import _stages, export_bundle
from exporter.planned import plan_export
from exporter.spec.recipe import Recipe
from exporter.verify.parity import ModuleProgram, rungs_of
from runtime_shims.cli import main
from runtime_shims.contract.bundle_reader import Bundle, read_bundle
from runtime_shims.reference import onnx_program, onnx_sessions
from runtime_shims.reference.generation import generate
from runtime_shims.reference.golden import read_golden
from runtime_shims.reference.loading import open_session
from runtime_shims.reference.native_stderr import captured_native_stderr
from runtime_shims.reference.onnx_program import OnnxProgram
from runtime_shims.reference.program import StepInputs
from runtime_shims.reference.replay import replay
from runtime_shims.reference.session import Session
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


def test_a_program_of_two_rows_runs_one_and_two(tmp_path: Path) -> None:
    """Of an axis that is 1 or 2 the tracer makes a new symbol for every tensor."""
    tiny_models.build("llama").save_pretrained(tmp_path / "llama")
    limits = {"max_batch": 2, "max_dec": 24, "max_draft": 1, "prefill_chunk": 2}
    export_bundle(Recipe(str(tmp_path / "llama"), backends=("onnx",), **limits), tmp_path / "two.bundle")
    session = open_session(read_bundle(tmp_path / "two.bundle"))
    both = [row.tokens for row in generate(session, PROMPTS[:2], max_new_tokens=9)]
    session.end()
    assert both[0] == generate(session, PROMPTS[:1], max_new_tokens=9)[0].tokens


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


def test_a_four_bit_copy_drafts_for_an_eight_bit_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tiny_models.build("llama").save_pretrained(tmp_path / "llama")
    letter_tokenizer(tiny_models.tiny_configs.VOCAB).save_pretrained(tmp_path / "llama")
    recipe = Recipe(
        str(tmp_path / "llama"), max_dec=48, max_draft=3, quantize="8da8w", draft="self-int4", backends=("onnx",)
    )
    report = export_bundle(recipe, tmp_path / "my.bundle")
    assert report.draft is not None
    assert report.draft.weights_bytes < report.weights_bytes
    assert report.draft.logits_difference is not None
    answers = []
    for speculation in ([], ["--speculate", "draft"]):
        given = [str(tmp_path / "my.bundle"), "-p", "hello", "--max-new-tokens", "24", *speculation, "--json"]
        assert main(["generate", *given]) == 0
        answers.append(json.loads(capsys.readouterr().out)["generations"])
    assert answers[0] == answers[1]


def test_the_rungs_below_an_onnx_program_answer_as_recorded(both: Path) -> None:
    """They are climbed when a program differs, to say where."""
    bundle = read_bundle(both)
    planned = plan_export(Recipe(str(both.parent / "llama"), max_batch=4, max_dec=48, backends=("onnx",)))
    rungs = rungs_of(_stages(planned, "onnx", None))
    assert [rung for rung, _ in rungs] == ["cached", "traced"]
    for _, methods in rungs:
        result = replay(Session(bundle, ModuleProgram(methods)), read_golden(bundle))
        assert result.logits_passed
        assert result.tokens_passed


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
    monkeypatch.setattr(onnx_sessions, "_SILENT", WARNING)
    monkeypatch.setattr(onnx_program, "limit_faults", lambda *_: [])  # the graphs say 8 rows, and take any
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


@pytest.mark.parametrize(
    "options", [{}, {"dtype": "float16"}, {"quantize": "8da4w", "embedding_bits": 4}], ids=["fp32", "fp16", "4 bits"]
)
def test_weights_are_stored_once_and_files_are_hardly_larger(options: dict[str, Any], tmp_path: Path) -> None:
    """A tied embedding, and an encoder-decoder's embedding that three graphs' worth of parts share."""
    config = tiny_models.tiny_configs.t5()
    config.vocab_size, config.d_model, config.d_ff = 60_000, 128, 512
    from transformers import T5ForConditionalGeneration

    torch.manual_seed(0)
    T5ForConditionalGeneration(config).save_pretrained(tmp_path / "t5")
    recipe = Recipe(str(tmp_path / "t5"), max_enc=16, max_dec=16, backends=("onnx",), **options)
    report = export_bundle(recipe, tmp_path / "my.bundle", verify=False, greedy=True)
    assert config.tie_word_embeddings
    written = sum((tmp_path / "my.bundle" / name).stat().st_size for name in FILES)
    assert report.programs == {"decode.onnx": written}
    assert report.weights_bytes > 4_000_000
    assert 0.99 * report.weights_bytes <= written <= 1.03 * report.weights_bytes


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


# Types of indices


def test_indices_of_32_bits_are_taken_and_change_no_token(tmp_path: Path) -> None:
    """Token ids, positions and lengths of both methods; the session goes on in 64 bits."""
    tiny_models.build("t5").save_pretrained(tmp_path / "t5")
    limits = {"max_batch": 4, "max_enc": 12, "max_dec": 24, "max_draft": 2, "prefill_chunk": 3, "backends": ("onnx",)}
    sources = [PROMPTS[0], PROMPTS[2]]
    answers = []
    for index_dtype in ("int64", "int32"):
        path = tmp_path / f"{index_dtype}.bundle"
        export_bundle(Recipe(str(tmp_path / "t5"), index_dtype=index_dtype, **limits), path, greedy=True)
        bundle = read_bundle(path)
        methods = bundle.program().methods
        tensors = [tensor for method in methods for tensor in (*method.inputs, *method.outputs)]
        assert {tensor.dtype for tensor in tensors if tensor.name != "logits"} == {index_dtype}
        answers.append([row.tokens for row in generate(open_session(bundle), [[0], [0]], sources, max_new_tokens=12)])
    assert answers[0] == answers[1]


# Names


@on(T5_ONNX, LLAMA_ONNX)
def test_graphs_tell_their_limits_and_the_meaning_of_their_inputs(lowered: Lowered) -> None:
    limits = lowered.bundle.manifest.limits
    model = onnx.load(str(lowered.bundle.root / "decode.onnx"), load_external_data=False)
    facts = {entry.key: entry.value for entry in model.metadata_props}
    assert facts["fixed_capacity.max_batch"] == str(limits.max_batch)
    assert facts["fixed_capacity.max_dec"] == str(limits.max_dec)
    assert all(value.doc_string for value in (*model.graph.input, *model.graph.output))
    assert not any(value.metadata_props for value in (*model.graph.input, *model.graph.output))


@on(T5_ONNX, LLAMA_ONNX)
def test_caches_have_the_names_that_users_of_onnx_runtime_know(lowered: Lowered) -> None:
    model = onnx.load(str(lowered.bundle.root / "decode.onnx"), load_external_data=False)
    inputs, outputs = ({value.name for value in values} for values in (model.graph.input, model.graph.output))
    if lowered.bundle.manifest.kind == "decoder_only":
        assert {"input_ids", "past_key_values.0.key", "past_key_values.1.value"} <= inputs
        assert {"logits", "present.0.key", "present.1.value"} <= outputs
    else:
        assert {"input_ids", "past_key_values.0.decoder.key", "past_key_values.0.encoder.value"} <= inputs
        assert {"logits", "present.0.decoder.key"} <= outputs
