"""Gemma 4 E2B's geometry with random weights: no weights of it install."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from exporter.spec.model_source import resolve_source
from exporter.spec.model_spec import ModelSpec
from exporter.spec.recipe import Recipe
from recipes.geometries.index import GEOMETRIES
from runtime_shims.contract.bundle_reader import read_bundle
from runtime_shims.reference.adaptive import FixedDrafts
from runtime_shims.reference.assistant_drafts import AssistantDrafts
from runtime_shims.reference.generation import generate
from runtime_shims.reference.loading import open_session
from runtime_shims.reference.speculative import Decoding
from tests.real.exports import run_measured, script
from tests.real.summary import Summary

PROMPT = [2, 818, 5279, 576]


def exported(model: str, target: Path, *options: str) -> tuple[dict, int]:
    """The report of an export with random weights, and its peak memory in bytes."""
    command = [script("export-model"), model, "--random-weights", "--json", "-o", str(target), *options]
    measured = run_measured(command)
    return json.loads(measured.printed), measured.peak_rss_bytes


@pytest.mark.parametrize(
    "layers", [pytest.param(15, marks=pytest.mark.real), pytest.param(35, marks=pytest.mark.large)]
)
def test_layers_of_e2b_lower_and_equal_eager(layers: int, tmp_path: Path, summary: Summary) -> None:
    """Heads, windows and shared caches as they are; narrow MLPs and a small vocabulary keep it quick. Of E2B's 35
    layers the last 20 share; of 15 these are 5."""
    small = {"vocab_size": 512, "vocab_size_per_layer_input": 512, "intermediate_size": 256}
    config = GEOMETRIES["gemma-4-e2b"]()
    shared = 5 if layers == 15 else config["num_kv_shared_layers"]
    kinds = config["layer_types"][:layers]
    depth = {"num_hidden_layers": layers, "num_kv_shared_layers": shared, "layer_types": kinds}
    (tmp_path / "e2b").mkdir()
    (tmp_path / "e2b" / "config.json").write_text(json.dumps(config | small | depth))
    report, _ = exported(str(tmp_path / "e2b"), tmp_path / "bundle", "--max-dec", "1024")
    caches = read_bundle(tmp_path / "bundle", check_hashes=False).manifest.caches
    assert [cache.kind for cache in caches] == [kind.partition("_")[0] for kind in kinds[: layers - shared]]
    assert report["golden_tokens"] > 0
    summary.add("gemma 4 E2B", "fused", f"{layers} layers: logits within {report['logits_difference']:.1e} of eager")


@pytest.mark.large
def test_e2b_and_its_assistant_export_in_less_memory_than_their_weights_have_in_float32(tmp_path: Path) -> None:
    """4.6 billion weights, drawn as they are quantized. 35 random layers forget any rounding, so that a program in
    integers cannot be held to eager: what it says with drafts is compared with what it says without."""
    options = ("--draft", "mtp", "--quantize", "8da4w", "--embedding-bits", "4", "--max-dec", "1024", "--no-verify")
    report, peak_bytes = exported("gemma-4-e2b", tmp_path / "bundle", *options)
    source = resolve_source(Recipe("gemma-4-e2b", random_weights=True))
    assert peak_bytes < 0.7 * 4 * ModelSpec.from_config(source.load_config()).parameter_count
    assert sum(report["programs"].values()) == pytest.approx(report["weights_bytes"], rel=0.03)
    session = open_session(read_bundle(tmp_path / "bundle", check_hashes=False))
    (plain,) = generate(session, [PROMPT], max_new_tokens=8)
    how = Decoding(proposer=AssistantDrafts(session), drafts=FixedDrafts(3))
    (drafted,) = generate(session, [PROMPT], max_new_tokens=8, how=how)
    assert len(plain.tokens) == 8
    assert drafted.tokens == plain.tokens
