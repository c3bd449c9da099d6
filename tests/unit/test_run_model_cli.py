"""`run-model generate` and `verify` as a user meets them, over programs in memory."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from runtime_doubles import (
    VOCAB,
    BundleShape,
    HistoryProgram,
    expected_continuation,
    make_manifest,
    next_token,
    write_bundle,
)

from runtime_shims.cli import main
from runtime_shims.commands.generate_output import TokenPrinter
from runtime_shims.commands.inputs import read_prompts
from runtime_shims.reference.golden import Golden, GoldenRequest, to_json
from tests.support.letters import letter_tokenizer

pytestmark = pytest.mark.usefixtures("programs")

TOKENIZER = letter_tokenizer(VOCAB)
TEMPLATE = "{% for m in messages %}{{ m['role'] + ':' + m['content'] + '|' }}{% endfor %}"


def tokenizer_files(directory: Path) -> dict[str, tuple[str, bytes]]:
    TOKENIZER.chat_template = TEMPLATE
    TOKENIZER.save_pretrained(directory)
    return {f"tokenizer/{p.name}": ("tokenizer", p.read_bytes()) for p in sorted(directory.iterdir())}


def golden(prompt: list[int], shift: float = 0.0, wrong_token: bool = False) -> bytes:
    tokens = expected_continuation(prompt, 4)
    first = tokens[0]
    tokens[2] = tokens[2] + 1 if wrong_token else tokens[2]
    request = GoldenRequest(
        source=None,
        features_seed=None,
        prompts=(tuple(prompt),),
        max_new_tokens=4,
        tokens=(tuple(tokens),),
        first_logits_top=(((first, 1.0 + shift),),),
    )
    return to_json(Golden((request,), logits_tolerance=1e-3)).encode()


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    contents = {"model.xnnpack.pte": ("program", b"pte"), "golden.json": ("golden", golden([5, 6]))}
    return write_bundle(
        tmp_path / "bundle", BundleShape(max_dec=40), contents | tokenizer_files(tmp_path / "tokenizer")
    )


@pytest.fixture
def bare_bundle(tmp_path: Path) -> Path:
    return write_bundle(tmp_path / "bare", BundleShape(), {"model.xnnpack.pte": ("program", b"pte")})


def ids(text: str) -> list[int]:
    return TOKENIZER(text).input_ids


def continuation(text: str, count: int) -> str:
    return TOKENIZER.decode(expected_continuation(ids(text), count))


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def test_a_prompt_is_continued_on_standard_output(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("generate", bundle, "--prompt", "hello", "--max-new-tokens", 6) == 0
    printed = capsys.readouterr()
    assert printed.out == continuation("hello", 6) + "\n"
    assert printed.err == ""


def test_several_prompts_are_one_batch(
    bundle: Path, capsys: pytest.CaptureFixture[str], programs: list[HistoryProgram]
) -> None:
    assert run("generate", bundle, "-p", "hello", "-p", "you", "--max-new-tokens", 3) == 0
    expected = [f"[{i}] {continuation(text, 3)}" for i, text in enumerate(["hello", "you"])]
    assert capsys.readouterr().out.splitlines() == expected
    assert len(programs) == 1
    assert programs[0].steps[0] == [5, 3]


def test_streamed_text_is_the_same_text(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("generate", bundle, "-p", "hello", "--max-new-tokens", 12, "--stream") == 0
    assert capsys.readouterr().out == continuation("hello", 12) + "\n"


def test_json_carries_tokens_text_and_statistics(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("generate", bundle, "-p", "hello", "--max-new-tokens", 4, "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["generations"] == [
        {
            "row": 0,
            "input": "hello",
            "text": continuation("hello", 4),
            "tokens": expected_continuation(ids("hello"), 4),
            "stop_reason": "max_new_tokens",
            "prompt_tokens": 5,
        }
    ]
    assert printed["stats"]["new_tokens"] == 4


def test_a_stream_of_json_has_one_event_per_token(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("generate", bundle, "-p", "ab", "-p", "c", "--max-new-tokens", 3, "--stream", "--json") == 0
    *events, result = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    for row, generation in enumerate(result["generations"]):
        mine = [event for event in events if event["row"] == row]
        assert [event["token"] for event in mine if event["token"] is not None] == generation["tokens"]
        assert "".join(event["text"] for event in mine) == generation["text"]


def test_a_prompts_file_may_have_a_byte_order_mark_and_only_line_feeds_end_a_prompt(tmp_path: Path) -> None:
    path = tmp_path / "prompts.txt"
    path.write_bytes("\ufeffone\r\ntwo\u2028more\n".encode())
    assert read_prompts(path) == {1: "one", 2: "two\u2028more"}


def test_streaming_does_not_fail_on_a_terminal_that_claims_ascii(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", terminal)
    TokenPrinter._write("\u4f60")
    assert terminal.buffer.getvalue() == "\u4f60".encode()


def test_a_prompts_file_runs_in_batches(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], programs: list[HistoryProgram]
) -> None:
    lines = [f"{chr(97 + i)}x" for i in range(11)]
    (tmp_path / "prompts.txt").write_text("\n\n".join(lines) + "\n", encoding="utf-8")
    assert run("generate", bundle, "--prompts-file", tmp_path / "prompts.txt", "--max-new-tokens", 2) == 0
    expected = [f"[{i}] {continuation(line, 2)}" for i, line in enumerate(lines)]
    assert capsys.readouterr().out.splitlines() == expected
    assert [len(step) for step in programs[0].steps] == [8, 8, 3, 3]


def test_a_wrong_line_of_a_prompts_file_is_named_before_the_first_batch_runs(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], programs: list[HistoryProgram]
) -> None:
    file = tmp_path / "prompts.txt"
    file.write_text("a\n\n" + "b\n" * 9 + "c" * 41 + "\n", encoding="utf-8")
    assert run("generate", bundle, "--prompts-file", file, "--max-new-tokens", 2, "--stream", "--json") == 1
    printed = capsys.readouterr()
    assert (printed.out, programs) == ("", [])
    assert f"the prompt of {file}, line 12 has 41 tokens, the decoder holds at most 40 positions" in printed.err


def test_a_wrong_row_of_a_batch_is_named_by_its_number_in_the_whole_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], programs: list[HistoryProgram]
) -> None:
    shape = BundleShape(kind="text_seq2seq", max_enc=4)
    bundle = write_bundle(tmp_path / "t2t", shape, {"model.xnnpack.pte": ("program", b"pte")})
    wrongs = {"5,99": "has token id 99; ids are", "5,5,5,5,5": "has 5 tokens, the encoder holds at most 4"}
    for wrong, message in wrongs.items():
        assert run("generate", bundle, "--ids", "5", "--ids", "6", "--ids", wrong) != 0
        assert f"the encoder input of row 2 {message}" in capsys.readouterr().err
    assert programs == []


def test_a_chat_goes_through_the_template(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("generate", bundle, "-p", "hi", "--chat", "--system", "be", "--max-new-tokens", 3) == 0
    assert capsys.readouterr().out == continuation("system:be|user:hi|", 3) + "\n"


def test_ids_need_no_tokenizer(bare_bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("generate", bare_bundle, "--ids", "5,6 7", "--max-new-tokens", 4) == 0
    assert capsys.readouterr().out.split() == [str(t) for t in expected_continuation([5, 6, 7], 4)]
    assert run("generate", bare_bundle, "--ids", "5", "--max-new-tokens", 2, "--stream") == 0
    assert capsys.readouterr().out.split() == [str(t) for t in expected_continuation([5], 2)]


def test_text_to_text_puts_the_prompt_in_the_encoder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], programs: list[HistoryProgram]
) -> None:
    shape = BundleShape(kind="text_seq2seq", max_enc=32)
    contents = {"model.xnnpack.pte": ("program", b"pte")} | tokenizer_files(tmp_path / "tokenizer")
    bundle = write_bundle(tmp_path / "t2t", shape, contents)
    assert run("generate", bundle, "-p", "hello", "--max-new-tokens", 3) == 0
    assert programs[0].encoded[0][0].tolist() == [ids("hello")]
    expected = expected_continuation([0], 3, source_sum=sum(ids("hello")))
    assert capsys.readouterr().out == TOKENIZER.decode(expected) + "\n"


def test_a_full_decoder_is_said(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("generate", bundle, "-p", "hello") == 0
    assert "--max-dec" in capsys.readouterr().err


def test_statistics_go_to_standard_error(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("generate", bundle, "-p", "hello", "--max-new-tokens", 3, "--stats") == 0
    printed = capsys.readouterr()
    assert printed.out == continuation("hello", 3) + "\n"
    assert "prefill 5 tokens" in printed.err
    assert "peak memory" in printed.err


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        ([], 2, "there is nothing to run"),
        (["-p", "a", "--ids", "1"], 2, "exclude each other"),
        (["--audio", "a.wav"], 2, "not --audio"),
        (["--ids", "1", "--chat"], 2, "--chat works on the text prompts"),
        (["-p", "a", "--system", "b"], 2, "give --chat"),
        (["-p", "a", "--audio-seconds", "3"], 2, "--audio"),
        (["--ids", "a,b"], 2, "which is no token id"),
        (["--ids", ""], 2, "holds no token id"),
        (["--ids", "999"], 2, "0..63"),
        (["-p", "a", "--backend", "onnx"], 2, "no 'onnx' program, it has xnnpack; give"),
        (["-p", "a", "--max-new-tokens", "0"], 2, "--max-new-tokens"),
        (["-p", "a", "--threads", "0"], 2, "--threads"),
        (["-p", "a", "--threads", "100000"], 2, "--threads"),
        (["-p", "a", "-p", "b", "--stream"], 2, "--json"),
        (["--prompts-file", "nowhere.txt"], 2, "nowhere.txt"),
        (["-p", "a" * 41], 1, "--max-dec"),
        (["-p", "a"] * 9, 1, "--max-batch"),
    ],
)
def test_a_wrong_call_is_one_line(
    bundle: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, part: str
) -> None:
    assert run("generate", bundle, *arguments) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert part in printed.err
    assert printed.err.startswith("run-model: ")
    assert len(printed.err.splitlines()) == 1


def test_a_bundle_that_changed_is_refused_unless_asked(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (bundle / "model.xnnpack.pte").write_bytes(b"xxx")
    assert run("generate", bundle, "-p", "a", "--max-new-tokens", 1) == 1
    assert "model.xnnpack.pte has changed" in capsys.readouterr().err
    assert run("generate", bundle, "-p", "a", "--max-new-tokens", 1, "--no-verify") == 0


def test_debug_shows_the_traceback_before_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("generate", "nowhere", "-p", "a", "--debug") == 1
    printed = capsys.readouterr().err
    assert "Traceback" in printed
    assert printed.splitlines()[-1].startswith("run-model: nowhere: ")


def test_text_without_a_tokenizer_asks_for_ids(bare_bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("generate", bare_bundle, "-p", "hello") == 2
    assert "--ids" in capsys.readouterr().err


def test_a_recording_goes_through_the_extractor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from runtime_shims.reference import audio

    class Extractor:
        def of_file(self, path: Path, cut: audio.AudioCut) -> torch.Tensor:
            samples = audio.read_mono(path, cut, 16_000)
            return torch.full((1, 4, 6), float(len(samples)) / 16_000)

    monkeypatch.setattr(audio, "load_speech_features", lambda bundle: Extractor())
    shape = BundleShape(kind="speech_seq2seq", start=(0, 3))
    bundle = write_bundle(tmp_path / "speech", shape, {"model.xnnpack.pte": ("program", b"pte")})
    soundfile.write(tmp_path / "a.wav", np.zeros(48_000, dtype=np.float32), 16_000)
    arguments = ["--audio", tmp_path / "a.wav", "--audio-start", 1, "--audio-seconds", 1]
    assert run("generate", bundle, *arguments, "--max-new-tokens", 1) == 0
    assert capsys.readouterr().out.split() == [str(next_token([0, 3], 24))]
    assert run("generate", bundle, "-p", "hello") == 2
    assert "takes --audio, not --prompt" in capsys.readouterr().err
    assert run("generate", bundle, *(["--audio", tmp_path / "a.wav"] * 9)) == 1
    advice = "at most 8 at once; give fewer --audio, or export with a larger --max-batch"
    assert advice in capsys.readouterr().err


def test_help_needs_no_torch() -> None:
    code = (
        "import sys; from runtime_shims.cli import main; "
        "assert main(['generate', '--help']) == 0; "
        "sys.exit(bool({'torch', 'numpy', 'transformers', 'executorch'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("fixed-capacity ")


def test_no_command_shows_the_help_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "generate" in capsys.readouterr().out


def test_the_doubles_are_valid_manifests() -> None:
    for kind in ("decoder_only", "text_seq2seq", "speech_seq2seq"):
        assert make_manifest(BundleShape(kind=kind)).kind == kind
