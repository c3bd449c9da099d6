"""What `--draft` plans: a second bundle with the first one's limits, refused unless it means the same by a token."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import GenerationConfig, PreTrainedTokenizerFast

from exporter.cli import main
from exporter.planned import plan_export
from exporter.spec.faults import SpecError
from exporter.spec.recipe import Recipe
from tests.support.tiny_models import CASES

LIMITS: dict[str, Any] = {"max_batch": 3, "max_dec": 24, "max_draft": 2, "prefill_chunk": 6, "attention": "portable"}
GROUPED = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4, "head_dim": 16}
"""Widths that 4 bits in core operators can group by 32."""


def checkpoint(directory: Path, name: str = "llama", words: int = 0, **changes: Any) -> str:
    """Config, end of sequence and, with `words`, a tokenizer; no weights."""
    config = CASES[name].config()
    for key, value in changes.items():
        setattr(config, key, value)
    config.save_pretrained(directory)
    GenerationConfig(eos_token_id=5).save_pretrained(directory)
    if words:
        vocabulary = {f"word{index}": index for index in range(words)}
        PreTrainedTokenizerFast(tokenizer_object=Tokenizer(WordLevel(vocabulary, "word0"))).save_pretrained(directory)
    return str(directory)


def refusal(model: str, draft: str, **changes: Any) -> str:
    with pytest.raises(SpecError) as refused:
        plan_export(Recipe(model, draft=draft, **(LIMITS | changes)), max_memory_bytes=changes.get("max_memory_bytes"))
    return str(refused.value)


def test_a_copy_in_four_bits_has_the_limits_of_its_model(tmp_path: Path) -> None:
    planned = plan_export(Recipe(checkpoint(tmp_path, **GROUPED), draft="self-int4", **LIMITS))
    assert planned.draft is not None
    ours, theirs = planned.plan, planned.draft.plan
    assert theirs.limits() == ours.limits()
    assert (theirs.recipe.quantize, theirs.recipe.draft, theirs.recipe.model) == ("8da4w", None, ours.recipe.model)
    assert theirs.weights_bytes < ours.weights_bytes


def test_another_model_drafts_with_the_same_limits_where_its_own_defaults_differ(tmp_path: Path) -> None:
    target = checkpoint(tmp_path / "target", words=9)
    draft = checkpoint(tmp_path / "draft", words=9, num_hidden_layers=1)
    planned = plan_export(Recipe(target, draft=draft, attention="portable"))
    assert planned.draft is not None
    assert planned.draft.plan.limits() == planned.plan.limits()
    assert planned.draft_name == "draft"


def test_a_draft_of_another_vocabulary_is_refused_before_weights_are_read(tmp_path: Path) -> None:
    target, draft = checkpoint(tmp_path / "target"), checkpoint(tmp_path / "draft", vocab_size=80)
    assert "cannot draft for" in refusal(target, draft)
    assert "vocabulary size 80 instead of" in refusal(target, draft)


def test_a_draft_of_another_tokenizer_is_refused_before_weights_are_read(tmp_path: Path) -> None:
    target, draft = checkpoint(tmp_path / "target", words=9), checkpoint(tmp_path / "draft", words=8)
    assert "SHA-256 of tokenizer/tokenizer.json" in refusal(target, draft)
    without = checkpoint(tmp_path / "without")
    assert "none (no tokenizer) instead of" in refusal(target, without)


def test_a_draft_that_cannot_be_found_is_named_by_its_option(tmp_path: Path) -> None:
    assert refusal(checkpoint(tmp_path), str(tmp_path / "nowhere")).startswith("--draft ")


def test_programs_that_cannot_be_had_in_four_bits_are_told_for_the_draft(tmp_path: Path) -> None:
    line = refusal(checkpoint(tmp_path), "self-int4")
    assert line.startswith("--draft self-int4: ")
    assert "widths that are multiples of --group-size 32, the model has 48" in line
    line = refusal(checkpoint(tmp_path), "self-int4", backends=("xnnpack", "portable"))
    assert line.startswith("--draft self-int4: ")
    assert "needs --backend xnnpack" in line
    line = refusal(checkpoint(tmp_path), "self-int4", backends=("xnnpack", "onnx"))
    assert line.startswith("--draft self-int4: ")
    assert "--quantize 8da4w means other numbers with --backend onnx than with xnnpack" in line


def test_the_budget_is_for_both_models(tmp_path: Path) -> None:
    model = checkpoint(tmp_path, **GROUPED)
    alone = plan_export(Recipe(model, **LIMITS)).plan.total_bytes
    assert plan_export(Recipe(model, **LIMITS), max_memory_bytes=alone).draft is None
    with pytest.raises(SpecError, match=r"its draft .*more than --max-memory"):
        plan_export(Recipe(model, draft="self-int4", **LIMITS), max_memory_bytes=alone)


def test_the_plan_shows_both_models(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = [checkpoint(tmp_path), "--max-dec", "24", "--draft", "self-int4", "--plan-only"]
    assert main([*given, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["draft"]["recipe"]["quantize"] == "8da4w"
    assert printed["recipe"]["draft"] == "self-int4"
    assert main(given) == 0
    assert "its draft" in capsys.readouterr().out
