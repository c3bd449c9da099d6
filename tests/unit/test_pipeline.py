"""What an export decides and refuses before a weight is read, and what it reports."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from transformers import GenerationConfig

from exporter.bundle.token_rules import GenerationSettingsError
from exporter.cli import main
from exporter.pipeline import export_bundle
from exporter.planned import plan_export
from exporter.report import ExportReport
from exporter.spec.faults import PlanError, SpecError
from exporter.spec.model_source import ModelSource
from exporter.spec.recipe import Recipe
from runtime_shims import native
from tests.support.tiny_models import CASES

TORCH_HEAVY = ("exporter.lower", "exporter.trace", "exporter.models", "executorch")


def checkpoint(directory: Path, name: str = "llama", **settings: Any) -> str:
    """A checkpoint without weights: config and generation settings only."""
    CASES[name].config().save_pretrained(directory)
    if settings:
        GenerationConfig(**settings).save_pretrained(directory)
    return str(directory)


@pytest.fixture
def no_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail when weights are read."""

    def load_model(self: ModelSource, progress: object = None) -> None:
        raise AssertionError("weights were read")

    monkeypatch.setattr(ModelSource, "load_model", load_model)


def test_a_plan_reads_config_and_settings_and_no_weights(tmp_path: Path) -> None:
    planned = plan_export(Recipe(checkpoint(tmp_path, eos_token_id=5), max_dec=24))
    assert planned.plan.recipe.max_dec == 24
    assert planned.rules.tokens.eos == (5,)


@pytest.mark.parametrize("arguments", [["--plan-only"], ["-o", "never.bundle"]])
def test_plan_and_export_refuse_the_same_generation_settings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], no_weights: None, arguments: list[str]
) -> None:
    model = checkpoint(tmp_path / "sampler", do_sample=True)
    arguments = [str(tmp_path / part) if part.endswith(".bundle") else part for part in arguments]
    assert main([model, "--max-dec", "24", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    assert line == (
        "export-model: the checkpoint's generation settings are not honoured: do_sample=True; "
        "give --greedy to decode greedily without them"
    )
    assert not (tmp_path / "never.bundle").exists()


@pytest.mark.parametrize("value", [9999, "x"])
def test_settings_that_name_no_token_are_refused_before_weights_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], no_weights: None, value: object
) -> None:
    model = checkpoint(tmp_path / "model", eos_token_id=value)
    for more in (["--plan-only"], ["-o", str(tmp_path / "never.bundle")], ["--plan-only", "--greedy"]):
        assert main([model, "--max-dec", "24", *more]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"export-model: generation settings: eos_token_id {value!r} is no token of the voc")


def test_a_plan_with_greedy_goes_through(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = checkpoint(tmp_path / "sampler", do_sample=True)
    assert main([model, "--max-dec", "24", "--greedy", "--plan-only"]) == 0
    assert "2 x full attention" in capsys.readouterr().out


def test_a_plan_loads_nothing_that_lowers(tmp_path: Path) -> None:
    code = (
        "import sys; from exporter.cli import main; code = main(sys.argv[1:]);"
        f"sys.exit(code or any(name.startswith({TORCH_HEAVY!r}) for name in sys.modules))"
    )
    arguments = [checkpoint(tmp_path), "--max-dec", "24", "--plan-only"]
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("installed", "asked", "decided"),
    [(True, None, "fused"), (False, None, "portable"), (True, "portable", "portable")],
)
def test_attention_is_the_kernel_where_it_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: bool, asked: Any, decided: str
) -> None:
    monkeypatch.setattr(native, "operator_library_path", lambda: Path("ops.so") if installed else None)
    planned = plan_export(Recipe(checkpoint(tmp_path), max_dec=24, attention=asked))
    assert planned.plan.recipe.attention == decided


def test_a_kernel_that_is_not_installed_is_refused_before_the_model_is_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(native, "operator_library_path", lambda: None)
    with pytest.raises(PlanError, match=r"not installed; reinstall with a C.*or use --attention portable"):
        plan_export(Recipe("./nowhere", attention="fused"))


def test_a_decoder_too_short_for_its_start_tokens_is_refused(tmp_path: Path) -> None:
    settings = {"decoder_start_token_id": 61, "no_timestamps_token_id": 62}
    model = checkpoint(tmp_path, "whisper", **settings)
    limits = {"max_draft": 0, "prefill_chunk": 1}
    with pytest.raises(PlanError, match="--max-dec 1 does not hold the decoder's 2 start tokens"):
        plan_export(Recipe(model, max_dec=1, **limits))
    assert plan_export(Recipe(model, max_dec=2, **limits)).rules.tokens.start == (61, 62)


def test_the_output_is_looked_at_before_the_model(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(SpecError, match="already exists"):
        export_bundle(Recipe("./nowhere"), tmp_path / "taken")


def test_what_is_refused_leaves_no_trace_beside_the_output(tmp_path: Path, no_weights: None) -> None:
    model = checkpoint(tmp_path / "sampler", do_sample=True)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(GenerationSettingsError):
        export_bundle(Recipe(model, max_dec=24), tmp_path / "never.bundle")
    assert sorted(tmp_path.rglob("*")) == before


def test_an_export_larger_than_this_machine_is_refused_and_its_plan_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], no_weights: None
) -> None:
    model, limits = checkpoint(tmp_path), ["--max-dec", "24", "--max-batch", str(10**9)]
    before = sorted(tmp_path.rglob("*"))
    assert main([model, *limits, "-o", str(tmp_path / "never.bundle")]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    assert "of this machine; lower --max-batch or --max-dec, or give --max-memory to export it for a larger" in line
    assert main([model, *limits, "--plan-only"]) == 0
    assert "batch 1000000000" in capsys.readouterr().out
    assert sorted(tmp_path.rglob("*")) == before


def test_memory_that_cannot_be_had_after_all_is_one_line_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = checkpoint(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    limits = ["--max-dec", "24", "--max-batch", str(2 * 10**9), "--max-memory", "999T", "--random-weights"]
    assert main([model, *limits, "-o", str(tmp_path / "never.bundle")]) == 1
    line = capsys.readouterr().err.splitlines()[-1]
    assert re.search(r"it needs .* TB .*, more memory than this machine can give; lower the limits, or export on", line)
    assert sorted(tmp_path.rglob("*")) == before


def test_activations_count_against_the_memory_budget_once_they_are_known(
    llama_checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = Recipe(model=str(llama_checkpoint), max_dec=24, prefill_chunk=16, attention="portable")
    plan = plan_export(recipe).plan
    with pytest.raises(PlanError, match=r"activations .*more than --max-memory .*--prefill-chunk") as refused:
        export_bundle(recipe, tmp_path / "never.bundle", max_memory_bytes=plan.total_bytes)
    assert "\n" not in str(refused.value)
    assert not list(tmp_path.iterdir())


def report(**changes: Any) -> ExportReport:
    values: dict[str, Any] = {
        "bundle": "x.bundle", "kind": "decoder_only", "attention": "fused",
        "programs": {"model.xnnpack.pte": 2_000_000, "model.portable.pte": 1_500_000},
        "weights_bytes": 1_400_000, "cache_bytes": 10_400, "planned_bytes": 22_400,
        "logits_difference": 1.9e-06, "golden_tokens": 9, "dropped_settings": (), "assumed_settings": (),
    }  # fmt: skip
    return ExportReport(**(values | changes))


def test_a_report_says_what_was_written_what_it_takes_and_what_was_proved() -> None:
    assert str(report()).splitlines() == [
        "x.bundle: model.xnnpack.pte 2.0 MB, model.portable.pte 1.5 MB (weights 1.4 MB)",
        "run-time memory: 22.4 kB planned, of it caches 10.4 kB; attention fused",
        "verified: golden tokens equal eager PyTorch, logits within 1.9e-06",
    ]


def test_a_report_does_not_hide_what_was_skipped_dropped_or_assumed() -> None:
    settings = {"dropped_settings": ("do_sample=True", "num_beams=4"), "assumed_settings": ("language=en",)}
    text = str(report(logits_difference=None, **settings))
    assert "assumes language=en: the checkpoint leaves it open" in text
    assert "not verified" in text
    assert "decodes greedily; the checkpoint also asks for do_sample=True, num_beams=4" in text


def test_a_report_claims_no_golden_token_where_none_is_recorded() -> None:
    last = str(report(golden_tokens=0)).splitlines()[-1]
    assert last == "verified: logits within 1.9e-06 of eager PyTorch, which decide no golden token by more"
