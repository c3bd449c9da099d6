"""`export-model` from the outside: options, output, exit codes. The pipeline is a stand-in here."""

from __future__ import annotations

import json
import subprocess
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import typer

from exporter.cli import bundle_name, main, make_app
from exporter.spec.faults import PlanError
from exporter.spec.recipe import Recipe
from recipes.index import RECIPES

OPTIONS = {
    "MODEL",
    "--recipe",
    "--device",
    "--random-weights",
    "--seed",
    "--max-batch",
    "--max-enc",
    "--max-dec",
    "--max-draft",
    "--prefill-chunk",
    "--max-memory",
    "--backend",
    "--attention",
    "--quantize",
    "--embedding-bits",
    "--group-size",
    "--dtype",
    "--index-dtype",
    "--draft",
    "--greedy",
    "--output -o",
    "--force",
    "--plan-only",
    "--no-verify",
    "--json",
    "--debug",
    "--list-recipes",
    "--version",
}
"""The frozen option set: a change here is a change of the interface."""


@dataclass(frozen=True)
class FakeReport:
    bundle: str

    def __str__(self) -> str:
        return f"wrote {self.bundle}"


class FakePipeline(types.ModuleType):
    """Stands where `exporter.pipeline` is imported from; records the call or raises."""

    def __init__(self) -> None:
        super().__init__("exporter.pipeline")
        self.calls: list[tuple[Recipe, Path, dict[str, Any]]] = []
        self.error: BaseException | None = None

    def export_bundle(self, recipe: Recipe, output: Path, **options: Any) -> FakeReport:
        options["progress"].stage("tracing")
        self.calls.append((recipe, output, options))
        if self.error is not None:
            raise self.error
        return FakeReport(str(output))


@pytest.fixture
def pipeline(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakePipeline]:
    fake = FakePipeline()
    monkeypatch.setitem(sys.modules, "exporter.pipeline", fake)
    return fake


def error_line(capsys: pytest.CaptureFixture[str]) -> str:
    """The one line on standard error; nothing is on standard output."""
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.strip().splitlines()
    return line


def test_the_option_set_is_frozen() -> None:
    command = typer.main.get_command(make_app())
    found = {
        "MODEL" if parameter.param_type_name == "argument" else " ".join(parameter.opts)
        for parameter in command.params
    }
    assert found == OPTIONS


def test_every_option_has_help_and_a_line_in_the_help_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(option.split()[0] in text for option in OPTIONS)
    assert "Examples" in text
    assert all(panel in text for panel in ("Model", "Capacity", "Program", "Output"))


def test_help_imports_neither_torch_nor_transformers() -> None:
    code = (
        "import sys; from exporter.cli import main; code = main(['--help']);"
        "sys.exit(code or 'torch' in sys.modules or 'transformers' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
    assert result.returncode == 0


def test_a_plan_of_a_published_geometry_needs_no_files(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["t5-small", "--random-weights", "--max-batch", "8", "--max-enc", "512", "--plan-only"]
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    assert err == ""
    for text in (
        "60.5 M parameters",
        "6 x full attention 256 -> 271 slots",
        "6 x cross-attention 512",
        "153.9 MB",
    ):
        assert text in out


def test_a_plan_shows_rings_beside_what_other_caches_would_take(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gemma-3-270m", "--random-weights", "--max-dec", "8192", "--plan-only"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any("15 x sliding window 512 -> 639 slots" in line for line in lines)
    bars = {line.split("  ")[0].strip() or line.strip(): line.count("█") for line in lines if "█" in line}
    ours, exact, static = bars.values()
    assert exact <= ours < static / 3


def test_a_plan_as_json_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gpt2", "--random-weights", "--plan-only", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["recipe"]["max_dec"] == plan["limits"]["max_dec"] == 1024
    assert len(plan["caches"]) == 12
    memory = plan["memory"]
    assert memory["cache_bytes"] == sum(cache["size_bytes"] for cache in plan["caches"])
    assert memory["total_bytes"] == sum(memory[f"{part}_bytes"] for part in ("weights", "cache", "logits"))


def test_every_option_reaches_the_recipe(pipeline: FakePipeline) -> None:
    arguments = "m --random-weights --seed 7 --max-batch 2 --max-enc 30 --max-dec 40 --max-draft 3"
    arguments += " --prefill-chunk 5 --backend portable --backend xnnpack --attention portable"
    arguments += " --quantize none --dtype float32 --max-memory 2G --greedy --force --no-verify -o out.bundle"
    assert main(arguments.split()) == 0
    ((recipe, output, options),) = pipeline.calls
    assert recipe == Recipe(
        model="m",
        random_weights=True,
        seed=7,
        max_batch=2,
        max_enc=30,
        max_dec=40,
        max_draft=3,
        prefill_chunk=5,
        backends=("portable", "xnnpack"),
        attention="portable",
    )
    assert output == Path("out.bundle")
    del options["progress"]
    assert options == {"force": True, "verify": False, "max_memory_bytes": 2 * 10**9, "greedy": True}


def test_the_options_of_a_quantized_model_reach_the_recipe(pipeline: FakePipeline) -> None:
    assert main(["m", "--quantize", "8da4w", "--embedding-bits", "8", "--group-size", "64"]) == 0
    ((recipe, _, _),) = pipeline.calls
    assert recipe == Recipe("m", quantize="8da4w", embedding_bits=8, group_size=64)


def test_without_options_the_defaults_of_recipe_hold(pipeline: FakePipeline) -> None:
    assert main(["google-t5/t5-small"]) == 0
    ((recipe, output, options),) = pipeline.calls
    assert recipe == Recipe("google-t5/t5-small")
    assert output == Path("t5-small.bundle")
    del options["progress"]
    assert options == {"force": False, "verify": True, "max_memory_bytes": None, "greedy": False}


def test_options_change_a_named_recipe(pipeline: FakePipeline) -> None:
    assert main(["--recipe", "t5-small", "--max-batch", "2"]) == 0
    assert main(["./mine", "--recipe", "t5-small"]) == 0
    (first, _, _), (second, _, _) = pipeline.calls
    named = RECIPES["t5-small"]().anywhere
    assert (first.max_batch, first.max_enc, first.model) == (2, named.max_enc, named.model)
    assert (second.max_batch, second.model) == (named.max_batch, "./mine")


def test_the_report_goes_to_standard_output_and_progress_to_standard_error(
    pipeline: FakePipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["m", "-o", "x.bundle"]) == 0
    out, err = capsys.readouterr()
    assert out == "wrote x.bundle\n"
    assert err.startswith("tracing ")
    assert main(["m", "-o", "x.bundle", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"bundle": "x.bundle"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--plan-only"], "recipe: give a MODEL, or a named recipe with --recipe (see --list-recipes)"),
        (["--recipe", "nope"], "--recipe nope is unknown; --list-recipes shows all"),
        (["--recipe", "t5-smal"], "--recipe t5-smal is unknown; did you mean t5-small"),
        (["--recipe", "t5-small", "--device", "cuda"], "--device cuda is unknown; available: phone, board, laptop"),
        (["t5-small", "--device", "phone"], "chooses among the values of a named recipe; add --recipe t5-small"),
        (["--list-recipes", "nope"], "--recipe nope is unknown; --list-recipes shows all"),
        (["--list-recipes", "--device", "cuda"], "--device cuda is unknown; available: phone, board, laptop"),
        (["--list-recipes", "--max-dec", "9"], "--list-recipes takes a recipe, --device and --json alone"),
        *(
            (["--list-recipes", *option], "--list-recipes takes a recipe, --device and --json alone")
            for option in (["--max-memory", "1G"], ["-o", "x"], ["--force"], ["--greedy"], ["--plan-only"])
        ),
        (["--recipe", "t5-small", "t5-base", "--list-recipes"], "t5-base is given beside --recipe t5-small; leave one"),
        (["mod\udcffel"], "MODEL 'mod\\udcffel' is not UTF-8 text; rename the file or directory"),
        (["m", "--max-batch", "0"], "--max-batch 0 is not allowed; use a whole number of at least 1"),
        (["m", "--max-batch", "2147483648"], "--max-batch 2147483648 is not allowed; use a whole number of at most"),
        (["m", "--max-dec", "9" * 400], "... is not allowed; use a whole number of at most 2147483647"),
        (["m", "--max-draft", "-1"], "--max-draft -1 is not allowed; use a whole number of at least 0"),
        (["m", "--seed", "-1"], "--seed -1 is not allowed; use a whole number of at least 0"),
        (
            ["m", "--random-weights", "--seed", str(2**63)],
            "--seed 9223372036854775808 is not allowed; use a whole number of at most 9223372036854775807",
        ),
        (["m", "--seed", "1.5"], "Invalid value for '--seed'"),
        (["m", "--seed", "nan"], "Invalid value for '--seed'"),
        (["m", "--max-batch", "many"], "Invalid value for '--max-batch'"),
        (["m", "--no-such-option"], "No such option: --no-such-option"),
        (["m", "--max-memory", "lots"], "--max-memory lots is not a size"),
        (["m", "--max-memory", "nan"], "--max-memory nan is not a size"),
        (["m", "--max-memory", "inf"], "--max-memory inf is not a size"),
        (["m", "--max-memory", "-1G"], "--max-memory -1G is not a size"),
        (["m", "--quantize", "q5"], "--quantize q5 is unknown; available: none, 8da8w, 8da4w, int8-weights-kv"),
        (
            ["m", "--quantize", "8da4w", "--embedding-bits", "4", "--attention", "portable"],
            "--embedding-bits 4 needs our operators",
        ),
        (["m", "--quantize", "8da4w", "--embedding-bits", "3"], "--embedding-bits 3 is not allowed; use 8, 4"),
        (["m", "--quantize", "8da8w", "--group-size", "48"], "--group-size 48 is not allowed; use 32, 64"),
        (["m", "--embedding-bits", "4"], "--embedding-bits 4 needs a quantized model; add --quantize 8da8w"),
        (["m", "--group-size", "64"], "--group-size 64 needs a quantized model; add --quantize 8da8w"),
        (["m", "--backend", "onnx", "--attention", "fused"], "--attention fused is an operator of ours, which ONNX"),
        (["m", "--backend", "onnx", "--quantize", "int8-weights-kv"], "--quantize int8-weights-kv is not available"),
        (
            ["m", "--backend", "onnx", "--backend", "xnnpack", "--dtype", "float16"],
            "--dtype float16 means other numbers with --backend onnx than with xnnpack; export a bundle for each",
        ),
        (
            ["m", "--backend", "onnx", "--quantize", "8da8w", "--group-size", "96"],
            "--group-size 96 is not allowed with --backend onnx; use 0, 32, 64, 128, 256",
        ),
        (["m", "--dtype", "bfloat16"], "--dtype bfloat16 is unknown; available: float32, float16"),
        (["m", "--dtype", "float16", "--attention", "portable"], "--dtype float16 needs our operators; use"),
        (["./no-such-model", "--plan-only"], "./no-such-model: there is no such file or directory"),
        (
            ["gpt2", "--random-weights", "--max-dec", "2000", "--plan-only"],
            "--max-dec 2000 exceeds the model's 1024 decoder positions; use at most 1024",
        ),
        (
            ["whisper-tiny.en", "--random-weights", "--max-enc", "200", "--plan-only"],
            "the whisper encoder always gives 1500 output positions",
        ),
        (
            ["t5-small", "--random-weights", "--max-memory", "1M", "--plan-only"],
            "more than --max-memory 1.0 MB",
        ),
    ],
)
def test_a_wrong_argument_is_one_line_and_exit_code_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    line = error_line(capsys)
    assert line.startswith("export-model: ")
    assert message in line


def test_no_argument_at_all_prints_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "Usage: export-model" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (PlanError("m", ["too large"]), 2, "m: too large"),
        (RuntimeError("lowering failed\nwith details"), 1, "lowering failed"),
        (OSError(28, "No space left on device"), 1, "No space left on device"),
        (MemoryError(), 1, "this machine has not enough memory"),
        (OSError(12, "Cannot allocate memory"), 1, "this machine has not enough memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), 1, "this machine has not enough memory"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_a_failed_export_is_one_line_and_its_exit_code(
    pipeline: FakePipeline,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
    text: str,
) -> None:
    pipeline.error = error
    assert main(["m"]) == code
    line = error_line(capsys)
    assert text in line
    assert "Traceback" not in line


def test_the_traceback_is_shown_when_asked_for(
    pipeline: FakePipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline.error = RuntimeError("lowering failed")
    assert main(["m", "--debug"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("fixed-capacity ")


def test_a_device_brings_its_values_its_memory_and_its_name(pipeline: FakePipeline) -> None:
    assert main(["--recipe", "bart-base-cnn", "--device", "board"]) == 0
    assert main(["--recipe", "bart-base-cnn", "--device", "board", "--max-memory", "1G", "--max-dec", "64"]) == 0
    (first, output, options), (second, _, changed) = pipeline.calls
    board = RECIPES["bart-base-cnn"]().board
    assert (first, output) == (board, Path("bart-base-cnn-board.bundle"))
    assert (options["max_memory_bytes"], options["greedy"]) == (2 * 10**9, True)
    assert (second, changed["max_memory_bytes"]) == (replace(board, max_dec=64), 10**9)


def test_every_recipe_is_listed_with_its_memory_on_each_device(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list-recipes"]) == 0
    text = capsys.readouterr().out
    assert [name for name in RECIPES if f"\n{name} " not in text or RECIPES[name]().anywhere.model not in text] == []
    for cell in ("phone, 3.0 GB", "8 x 512 -> 256", "int8-weights-kv", "too large: 3.0 GB", "speech encoder-decoder"):
        assert cell in text
    assert max(map(len, text.splitlines())) <= 120


def test_one_recipe_is_shown_in_full_with_the_commands_that_export_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list-recipes", "whisper-tiny.en", "--device", "board"]) == 0
    text = capsys.readouterr().out
    for part in ("openai/whisper-tiny.en", "37.8 M", "1 x 1500 -> 224", "--recipe whisper-tiny.en --device board"):
        assert part in text
    assert "laptop" not in text


def test_recipes_as_json_are_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list-recipes", "--recipe", "gemma-4-e2b", "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)
    assert (entry["name"], entry["model"], entry["kind"]) == ("gemma-4-e2b", "google/gemma-4-E2B-it", "decoder_only")
    assert [name for name, on in entry["devices"].items() if not on["fits"]] == ["board"]
    memory = entry["devices"]["board"]["memory"]
    assert memory["total_bytes"] == sum(memory[f"{part}_bytes"] for part in ("weights", "cache", "logits", "draft"))
    assert memory["budget_bytes"] == 2 * 10**9


def test_a_bundle_is_named_after_its_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = tmp_path / "my-checkpoint"
    checkpoint.mkdir()
    monkeypatch.chdir(checkpoint)
    assert bundle_name("google-t5/t5-small") == "t5-small.bundle"
    assert bundle_name("whisper-tiny.en") == "whisper-tiny.en.bundle"
    assert bundle_name(".") == "my-checkpoint.bundle"
    assert bundle_name(f"{checkpoint}/") == "my-checkpoint.bundle"
    assert bundle_name("models/tiny-Q4.gguf") == "tiny-Q4.bundle"
