"""Bad input to `export-model`: one line on standard error, the right exit code, nothing left behind.

Exit code 2: the user asks for something else. 1: it was right to ask, and it failed. 130: interrupted.
Where each kind of bad input, to either command, is tested:

tests/unit/test_bad_input.py
    2    unknown model, output that exists     test_an_export_that_is_refused_is_one_line_and_leaves_nothing
    2    existing bundle without --force       test_an_existing_bundle_is_kept_without_force
    2    Hub id without network                test_a_hub_id_without_network_is_one_line
    2    --max-enc, --max-dec above the model  test_limits_above_the_model_are_refused
    2    missing, unexpected, misshapen weights  test_weights_that_do_not_fit_are_one_line
    1    full disk half-way                    test_a_full_disk_half_way_is_one_line_and_leaves_nothing
    130  Ctrl-C half-way                       test_ctrl_c_while_lowering_leaves_nothing
tests/unit/test_export_cli.py
    2    batch 0, values that mean nothing     test_a_wrong_argument_is_one_line_and_exit_code_2
    2    seed or limit out of range            test_a_wrong_argument_is_one_line_and_exit_code_2
tests/unit/test_pipeline.py
    2    more memory than the machine has      test_an_export_larger_than_this_machine_is_refused_and_its_plan_is_not
    1    memory that cannot be had             test_memory_that_cannot_be_had_after_all_is_one_line_and_leaves_nothing
    2    settings that nobody honours          test_plan_and_export_refuse_the_same_generation_settings
    2    settings that name no token           test_settings_that_name_no_token_are_refused_before_weights_are_read
tests/unit/test_model_spec_hub.py
    2    unknown id, the Hub answering         test_an_unknown_id_is_told_apart_from_no_network
tests/unit/test_model_spec_source.py
    2    damaged weight file                   test_a_truncated_weight_file_is_one_line
    2    damaged config                        test_a_broken_config_is_one_line
tests/unit/test_model_spec_refusals.py
    2    heads that cannot be shared evenly    test_key_value_heads_that_query_heads_cannot_share_evenly_are_refused
    2    heads that Moonshine's code mistakes  test_heads_that_transformers_moonshine_does_not_run_are_refused
    2    convolutions of another stride        test_convolutions_that_give_other_positions_are_refused
tests/unit/test_hearing.py
    2    preprocessor that changes the sound   test_a_preprocessor_that_changes_the_sound_is_refused_in_one_line
tests/unit/test_sound_rows.py
    1, 2 sound too short or too long to hear   test_sound_that_does_not_fit_is_refused_in_one_line
tests/parity/test_sound_lengths.py
tests/unit/test_bundle_writer.py
    2    output inside a bundle                test_an_output_inside_a_bundle_is_refused
    1    full disk while replacing a bundle    test_a_full_disk_keeps_the_old_bundle
    2    --force on what is no bundle          test_force_replaces_nothing_but_a_bundle
tests/unit/test_bad_input_run.py
    1    changed byte, missing file            test_a_damaged_bundle_is_one_line_whatever_is_done_with_it
    1    program without its identifier        test_a_program_without_its_identifier_is_one_line_and_no_crash
    1    path outside, unknown key, new format  test_a_damaged_bundle_is_one_line_whatever_is_done_with_it
    1    step wider than its rings, claimed    test_a_wider_step_than_the_rings_were_sized_for_is_refused
    1    prompt longer than the capacity       test_a_request_that_does_not_fit_is_one_line
    2    bytes that are not UTF-8              test_bytes_that_are_not_utf_8_are_one_line_wherever_they_come_from
    1    program larger than memory            test_a_program_that_plans_more_memory_than_there_is_is_one_line
    2    empty prompt                          test_a_request_that_does_not_fit_is_one_line
    2    empty encoder input                   test_an_empty_encoder_input_is_one_line
    2    not a sound file                      test_a_file_that_is_not_sound_is_one_line
    1    closed standard output                test_a_closed_standard_output_is_one_line
tests/unit/test_run_model_cli.py
    1    a wrong line of a late batch          test_a_wrong_line_of_a_prompts_file_is_named_before_the_first_batch_runs
    2    a wrong row of a batch                test_a_wrong_row_of_a_batch_is_named_by_its_number_in_the_whole_input
tests/unit/test_stop_strings.py
    2    stop strings that are no text         test_a_stop_string_that_no_row_can_hold_is_refused_in_one_line
tests/runner/test_same_words.py
    2    numbers that only one language reads  test_both_refuse_the_same_option_in_the_same_line
tests/unit/test_run_model_cli_decoding.py
    2    settings and modes that make no sense  test_a_wrong_call_is_one_line_that_names_the_option
    2    drafts of another tokenizer           test_a_draft_of_another_tokenizer_is_refused_by_its_digest
    2    stop strings without a tokenizer      test_a_stop_string_needs_a_tokenizer
tests/unit/test_start.py
    130  Ctrl-C while importing                test_an_interrupt_while_the_command_is_imported_is_one_line
tests/unit/test_text.py
    2    damaged tokenizer settings            test_a_tokenizer_whose_settings_have_the_wrong_form_is_one_line
tests/unit/test_pipeline_golden.py
    1    the model's own logits are NaN        test_a_model_whose_own_logits_are_no_numbers_is_named_and_no_bundle_is
tests/unit/test_audio.py
    2    sound longer than the encoder takes   test_a_file_that_is_too_long_is_refused_by_its_header_and_not_read
    0    sound at another rate: resampled      test_other_rates_are_resampled
tests/unit/test_program_check.py
    1    manifest edited consistently          test_a_manifest_edited_consistently_is_refused_when_its_program_is_loaded
tests/unit/test_session_checks.py
    2    rows that are no integers             test_prompts_that_are_no_rows_of_integers_are_refused
    2    encoder lengths that are no integers  test_encoder_lengths_that_are_no_integers_are_refused
    1    step wider than its rings, asked for  test_a_step_that_makes_no_sense_is_refused
tests/parity/test_run_model.py
    1    the same, of the program itself       test_a_step_larger_than_the_program_is_refused
tests/contract/test_malformed_manifests.py
    1    any other malformed manifest          test_a_manifest_of_the_wrong_form_is_refused_in_one_line
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
import torch
from processes import EXPORT_MODEL, LLAMA_LIMITS, listing, run, small_disk
from safetensors.torch import load_file, save_file

from exporter.cli import main
from tests.support.tiny_models import CASES

TESTS = Path(__file__).parents[1]
FULL_AT_ONCE = 8
"""Kilobytes of disk that a plan and an empty directory leave too little of for the first file."""


def test_every_test_in_the_table_exists() -> None:
    path, rows = Path(), 0
    for line in (__doc__ or "").splitlines():
        if line.startswith("tests/"):
            path = TESTS.parent / line
        elif row := re.fullmatch(r" {4}(0|1|2|130) +\S.*\S +(test_\w+)", line):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            assert row[2] in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, line
            rows += 1
    assert rows == 52


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of the command."""
    directory = tmp_path / "work"
    directory.mkdir()
    monkeypatch.chdir(directory)
    return directory


def refused(place: Path, capsys: pytest.CaptureFixture[str], code: int, *arguments: object) -> str:
    """The one line of a command that fails with `code` and changes nothing in `place`."""
    before = listing(place)
    assert main([str(argument) for argument in arguments]) == code
    assert listing(place) == before
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1, errors
    line = errors.strip()
    assert line.startswith("export-model: ")
    return line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("./nowhere",), "./nowhere: there is no such file or directory"),
        (("not a name",), "not a name: there is no such file or directory"),
        (("empty",), "empty: the directory has no config.json"),
        (("notes.txt",), "notes.txt: it is a file; give a checkpoint directory or a .gguf file"),
        (("broken.gguf",), "broken.gguf: it is not a GGUF file"),
        (("empty", "-o", "taken"), "taken: already exists; give --force to replace it, or another output"),
        (("empty", "-o", "taken", "--force"), "taken: exists and is no bundle"),
        (("empty", "-o", "notes.txt", "--force"), "notes.txt: exists and is no bundle"),
        (("empty", "-o", "no/where.bundle"), "the directory no does not exist; create it first"),
        (("empty", "-o", "notes.txt/x.bundle"), "the directory notes.txt does not exist"),
        (("empty", "--dtype", "float16", "--attention", "portable"), "--dtype float16 needs our operators"),
    ],
)
def test_an_export_that_is_refused_is_one_line_and_leaves_nothing(
    place: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    (place / "empty").mkdir()
    (place / "taken").mkdir()
    (place / "notes.txt").write_text("notes")
    (place / "broken.gguf").write_bytes(b"GGML")
    assert message in refused(place, capsys, 2, *arguments)


def test_an_existing_bundle_is_kept_without_force(
    llama_checkpoint: Path, llama_bundle: Path, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(llama_bundle, place / "llama.bundle")
    assert "already exists; give --force" in refused(place, capsys, 2, llama_checkpoint)


def test_a_hub_id_without_network_is_one_line(place: Path) -> None:
    """Nothing listens at the endpoint; the caches of the Hub are empty."""
    environment = {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(place.parent), "HF_HUB_OFFLINE": "0"}
    done = run(*EXPORT_MODEL, "someone/some-model", **environment)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "export-model: someone/some-model: no network, or someone/some-model is unknown; "
        "use a local directory or .gguf file, or --random-weights with a known name\n"
    )
    assert listing(place) == {}


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        (
            "bart",
            ("--max-enc", "513"),
            "--max-enc 513 exceeds the model's 512 encoder positions; use at most 512",
        ),
        (
            "bart",
            ("--max-dec", "513"),
            "--max-dec 513 exceeds the model's 512 decoder positions; use at most 512",
        ),
        ("whisper", ("--max-enc", "21"), "the whisper encoder always gives 20 output positions"),
        ("llama", ("--max-enc", "5"), "--max-enc 5 has no meaning for llama"),
        (
            "llama",
            ("--max-dec", "8", "--prefill-chunk", "9"),
            "--prefill-chunk 9 is not allowed with --max-dec 8",
        ),
        ("llama", ("--max-dec", "8", "--max-draft", "8"), "--max-draft 8 does not fit --max-dec 8"),
        ("llama", ("--max-memory", "1k"), "more than --max-memory 1.0 kB"),
    ],
)
def test_limits_above_the_model_are_refused(
    place: Path, capsys: pytest.CaptureFixture[str], name: str, arguments: tuple[str, ...], message: str
) -> None:
    CASES[name].config().save_pretrained(place / name)
    assert message in refused(place, capsys, 2, f"./{name}", *arguments)


def test_weights_that_do_not_fit_are_one_line(llama_checkpoint: Path, place: Path) -> None:
    broken = shutil.copytree(llama_checkpoint, place / "broken")
    weights = load_file(broken / "model.safetensors")
    del weights["model.norm.weight"]
    weights["model.extra.weight"] = torch.ones(3)
    weights["lm_head.weight"] = torch.ones(5, 32)
    save_file(weights, broken / "model.safetensors", metadata={"format": "pt"})
    before = listing(place)
    done = run(*EXPORT_MODEL, broken, *LLAMA_LIMITS, "-o", place / "never.bundle")
    (line,) = done.stderr.splitlines()
    assert done.returncode == 2
    assert line.startswith(f"export-model: {broken}: ")
    assert all(name in line for name in ("model.norm.weight", "model.extra.weight", "lm_head.weight"))
    assert listing(place) == before


def test_a_full_disk_half_way_is_one_line_and_leaves_nothing(llama_checkpoint: Path, tmp_path: Path) -> None:
    """The tokenizer does not fit: weights are loaded by then, and the staging directory exists."""
    code = (
        "import os, sys; from exporter.cli import main; code = main(sys.argv[1:]);"
        "print('left:', os.listdir(os.path.dirname(sys.argv[-1]))); sys.exit(code)"
    )
    export = (EXPORT_MODEL[0], "-c", code, llama_checkpoint, *LLAMA_LIMITS, "-o", tmp_path / "never.bundle")
    done = run(*small_disk(tmp_path, FULL_AT_ONCE), *export)
    *stages, line = done.stderr.splitlines()
    assert done.returncode == 1, done.stderr
    assert line.startswith("export-model: ")
    assert "No space left on device" in line
    assert all(re.fullmatch(r"[\w ]+ \d+\.\d s", stage) for stage in stages), done.stderr
    assert done.stdout.splitlines()[-1] == "left: []"


def test_ctrl_c_while_lowering_leaves_nothing(llama_checkpoint: Path, place: Path) -> None:
    command = [*EXPORT_MODEL, str(llama_checkpoint), *LLAMA_LIMITS, "--attention", "portable", "-o", "never.bundle"]
    environment = os.environ | {"OMP_NUM_THREADS": "2"}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment) as p:
        assert p.stderr is not None
        lines = [p.stderr.readline()]
        while lines[-1] and not lines[-1].startswith("tracing"):
            lines.append(p.stderr.readline())
        assert [path.name.startswith(".never.bundle.partial-") for path in place.iterdir()] == [True]
        time.sleep(1)
        p.send_signal(signal.SIGINT)
        rest = p.stderr.read()
        p.wait(timeout=60)
    assert (p.returncode, rest) == (130, "export-model: interrupted\n")
    assert listing(place) == {}
