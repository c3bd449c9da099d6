"""`run-model` and a session over exported bundles: tiny models of each kind, lowered and run for real."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from transformers import PreTrainedModel

from exporter.pipeline import export_bundle
from exporter.spec.recipe import Recipe
from exporter.verify import parity
from exporter.verify.parity import ParityError, Stages
from runtime_shims.cli import main
from runtime_shims.contract.bundle_reader import Bundle, read_bundle
from runtime_shims.contract.errors import BundleCorrupt, CapacityExceeded, FixedCapacityError
from runtime_shims.contract.pieces import read_pieces
from runtime_shims.reference.generation import generate
from runtime_shims.reference.golden import read_golden
from runtime_shims.reference.loading import load_program, open_session
from runtime_shims.reference.program import StepInputs
from runtime_shims.reference.session import Session
from tests.parity.support import Capacity, Planned
from tests.support import tiny_models
from tests.support.letters import letter_tokenizer

CAPACITY = 48
PROMPTS = [[5, 9, 30, 41, 7, 8, 22], [11], [50, 51, 52]]


def export(directory: Path, name: str, **limits: object) -> Path:
    """The bundle of tiny model `name`, with a tokenizer of letters."""
    checkpoint = directory / name
    tiny_models.build(name).save_pretrained(checkpoint)
    letter_tokenizer(tiny_models.tiny_configs.VOCAB).save_pretrained(checkpoint)
    if name == "whisper":
        tiny_models.extractor().save_pretrained(checkpoint)
    recipe = Recipe(str(checkpoint), max_batch=4, max_dec=CAPACITY, max_draft=3, prefill_chunk=6, **limits)  # type: ignore[arg-type]
    bundle = directory / f"{name}.bundle"
    export_bundle(recipe, bundle)
    return bundle


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export(tmp_path_factory.mktemp("llama"), "llama")


@pytest.fixture(scope="module")
def whisper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export(tmp_path_factory.mktemp("whisper"), "whisper")


@pytest.fixture(scope="module")
def model() -> PreTrainedModel:
    return tiny_models.build("llama")


@pytest.fixture(scope="module")
def session(llama: Path) -> Session:
    return open_session(read_bundle(llama))


def eager(model: PreTrainedModel, tokens: list[int]) -> torch.Tensor:
    """Logits float32 [T, V] of one uncached pass over a whole row."""
    with torch.no_grad():
        return model(input_ids=torch.tensor([tokens])).logits[0]


def eager_greedy(model: PreTrainedModel, prompt: list[int], count: int) -> list[int]:
    held = list(prompt)
    for _ in range(count):
        held.append(int(eager(model, held)[-1].argmax()))
    return held[len(prompt) :]


def test_ragged_prefill_equals_eager_row_by_row(session: Session, model: PreTrainedModel) -> None:
    session.begin(PROMPTS)
    logits = session.prefill()
    for row, prompt in enumerate(PROMPTS):
        torch.testing.assert_close(logits[row], eager(model, prompt)[-1], atol=1e-4, rtol=1e-4)


def test_ragged_steps_and_rollbacks_equal_eager(session: Session, model: PreTrainedModel) -> None:
    session.begin(PROMPTS)
    session.prefill()
    held = [list(prompt) for prompt in PROMPTS]
    rounds = [
        ([[1, 2, 3, 4], [5], []], [3, 0, 0]),
        ([[6], [7, 8], [9, 10, 11]], [0, 1, 3]),
        ([[12, 13], [], [14]], [0, 0, 0]),
    ]
    for step, rolled_back in rounds:
        logits = session.step(step).clone()
        for row, tokens in enumerate(step):
            if tokens:
                wanted = eager(model, held[row] + tokens)[-len(tokens) :]
                torch.testing.assert_close(logits[row, : len(tokens)], wanted, atol=1e-4, rtol=1e-4)
            held[row] += tokens
            session.rollback(row, rolled_back[row])
            del held[row][len(held[row]) - rolled_back[row] :]


def test_generation_repeats_eager_up_to_the_capacity(session: Session, model: PreTrainedModel) -> None:
    prompt = PROMPTS[0] * 6
    (answer,) = generate(session, [prompt], max_new_tokens=100)
    wanted = eager_greedy(model, prompt, CAPACITY - len(prompt) + 1)
    assert answer.stop_reason in ("capacity", "eos")
    assert list(answer.tokens) == wanted[: len(answer.tokens)]


def test_one_session_serves_requests_of_any_size_in_any_order(
    session: Session, model: PreTrainedModel
) -> None:
    for prompts in ([[7]], PROMPTS, [[9, 9]], [[3], [4], [5], [6]], PROMPTS[1:]):
        for prompt, answer in zip(prompts, generate(session, prompts, max_new_tokens=3), strict=True):
            assert list(answer.tokens) == eager_greedy(model, prompt, 3)[: len(answer.tokens)]


def test_a_reset_gives_fresh_caches_and_a_usable_session(llama: Path, model: PreTrainedModel) -> None:
    bundle = read_bundle(llama)
    program = load_program(bundle, bundle.program())
    session = Session(bundle, program)
    generate(session, PROMPTS, max_new_tokens=2)
    session.reset()
    session.begin([PROMPTS[0]])
    torch.testing.assert_close(session.prefill()[0], eager(model, PROMPTS[0])[-1], atol=1e-4, rtol=1e-4)


def step_inputs(rows: int, width: int, length: int) -> StepInputs:
    return StepInputs(
        tokens=torch.zeros(rows, width, dtype=torch.int64),
        positions=torch.zeros(rows, dtype=torch.int64),
        step_lengths=torch.full((rows,), length, dtype=torch.int64),
        logit_rows=torch.zeros(rows, 1, dtype=torch.int64),
        enc_lengths=None,
    )


@pytest.mark.parametrize(("rows", "width"), [(5, 1), (1, 7)])
def test_a_step_larger_than_the_program_is_refused(llama: Path, rows: int, width: int) -> None:
    bundle = read_bundle(llama)
    with pytest.raises(CapacityExceeded):
        load_program(bundle, bundle.program()).decode(step_inputs(rows, width, 1))


def test_what_the_operator_refuses_is_one_line(llama: Path, capfd: pytest.CaptureFixture[str]) -> None:
    bundle = read_bundle(llama)
    if not bundle.program().operator_library_required:
        pytest.skip("the operator library is not installed")
    with pytest.raises(FixedCapacityError, match=r"model\.xnnpack\.pte: decode failed") as caught:
        load_program(bundle, bundle.program()).decode(step_inputs(1, 2, 3))
    assert "\n" not in str(caught.value)


def test_a_program_that_is_cut_short_does_not_load(llama: Path, tmp_path: Path) -> None:
    broken = shutil.copytree(llama, tmp_path / "broken")
    program = broken / "model.xnnpack.pte"
    program.write_bytes(program.read_bytes()[:1000])
    bundle = Bundle(broken, read_bundle(llama).manifest)
    with pytest.raises(BundleCorrupt, match="ExecuTorch cannot load it") as caught:
        load_program(bundle, bundle.program())
    assert "\n" not in str(caught.value)


def test_generate_prints_the_text_of_eager_s_tokens(
    llama: Path, model: PreTrainedModel, capsys: pytest.CaptureFixture[str]
) -> None:
    tokenizer = letter_tokenizer(tiny_models.tiny_configs.VOCAB)
    wanted = tokenizer.decode(eager_greedy(model, tokenizer("hello").input_ids, 8), skip_special_tokens=True)
    assert main(["generate", str(llama), "--prompt", "hello", "--max-new-tokens", "8"]) == 0
    assert capsys.readouterr().out == wanted + "\n"


def test_verify_climbs_every_rung(llama: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(llama), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [rung["check"] for rung in printed["rungs"]] == ["files", "load", "run", "first logits", "tokens"]


def test_a_speech_bundle_is_verified_with_its_features(whisper: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(whisper), "--json"]) == 0
    rungs = json.loads(capsys.readouterr().out)["rungs"]
    assert [rung["check"] for rung in rungs] == ["files", "load", "run", "first logits", "tokens", "features"]


def test_an_export_whose_features_differ_is_refused_with_the_rung(
    whisper: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One value of the golden file is moved; the method itself is right, so its module is the first that differs."""
    golden = read_golden(read_bundle(whisper))
    assert golden.features is not None
    ((mel, frame, value), *others), *rows = golden.features.rows
    moved = replace(golden.features, rows=(((mel, frame, value + 0.01), *others), *rows))
    monkeypatch.setattr(parity, "read_golden", lambda bundle: replace(golden, features=moved))
    planned = Planned.of("whisper", "portable", Capacity(max_batch=4, max_dec=CAPACITY))
    with pytest.raises(ParityError, match=r"the features of the cached rung differ from the extractor's: by 0\.01"):
        parity.verify_bundle(whisper, lambda backend: Stages(planned.methods, planned.traced))


def test_the_bundles_of_both_kinds_carry_the_pieces_of_their_tokenizer(llama: Path, whisper: Path) -> None:
    tokenizer = letter_tokenizer(tiny_models.tiny_configs.VOCAB)
    ids = tokenizer("hello world.").input_ids
    for directory in (llama, whisper):
        pieces = read_pieces(read_bundle(directory))
        assert pieces is not None
        assert pieces.decode([0, *ids, 1]).decode() == tokenizer.decode(ids, skip_special_tokens=True)


def test_bench_and_inspect_run_on_a_real_bundle(llama: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", str(llama), "--rows", "2", "--repeats", "2", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [fill["positions"] for fill in printed["fills"]] == [2, 24, 47]
    assert main(["inspect", str(llama)]) == 0
    assert "decode(input_ids int64[b, t]" in capsys.readouterr().out


def test_the_command_prints_nothing_but_the_answer(llama: Path) -> None:
    """In a process of its own: no library may add a line to either stream."""
    command = [sys.executable, "-c", "import sys; from runtime_shims.cli import main; sys.exit(main())"]
    arguments = ["generate", str(llama), "-p", "hello", "--max-new-tokens", "2", "--threads", "1"]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 1


def test_a_recording_is_transcribed_in_parts(
    whisper: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tone = np.sin(np.arange(9600) / 20).astype(np.float32)
    soundfile.write(tmp_path / "tone.wav", np.stack([tone, 0 * tone], axis=1), 8000)
    audio = ["generate", str(whisper), "--audio", str(tmp_path / "tone.wav")]
    assert main(audio) == 2
    assert "1.2 s of sound, the encoder takes at most 1 s" in capsys.readouterr().err
    assert main([*audio, "--audio-start", "0.1", "--audio-seconds", "0.9", "--json"]) == 0
    (generation,) = json.loads(capsys.readouterr().out)["generations"]
    rules = read_bundle(whisper).manifest.tokens
    assert generation["prompt_tokens"] == len(rules.start)
    assert generation["tokens"][0] not in rules.suppress + rules.begin_suppress
    assert not set(generation["tokens"]) & set(rules.suppress)
