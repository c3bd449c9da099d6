"""`--dtype float16`: bundles of each kind of model, exported, verified and run against rounded stock models."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from exporter.pipeline import export_bundle
from exporter.report import ExportReport
from exporter.spec.recipe import Recipe
from exporter.weights.half import round_to_half
from runtime_shims.cli import main
from runtime_shims.contract.bundle_reader import Bundle, read_bundle
from runtime_shims.native import operator_library_path
from runtime_shims.reference.loading import open_session
from tests.parity.schedules import Request, compare, start, wander
from tests.parity.support import WRONG, StockModel
from tests.support import tiny_models
from tests.support.tiny_configs import WINDOW

pytestmark = pytest.mark.skipif(operator_library_path() is None, reason="the C++ operator library is not installed")

SOURCES = {"t5": [24, 1, 9]}
KINDS = ("gemma3", "t5", "whisper")
Export = Callable[..., tuple[Bundle, ExportReport]]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Export:
    """A function that exports a tiny model once for all tests of this file."""
    directory, made = tmp_path_factory.mktemp("half"), {}

    def export(case: str, **changes: object) -> tuple[Bundle, ExportReport]:
        key = (case, *sorted(changes.items()))
        if key not in made:
            checkpoint = directory / f"checkpoint{len(made)}"
            tiny_models.build(case).save_pretrained(checkpoint)
            target = directory / f"{case}{len(made)}.bundle"
            limits = {"max_enc": 24} if case == "t5" else {}
            limits |= {"max_batch": 3, "max_dec": 100, "max_draft": 3, "prefill_chunk": 5}
            recipe = Recipe(str(checkpoint), **limits, **changes)  # type: ignore[arg-type]
            report = export_bundle(recipe, target)
            made[key] = read_bundle(target), report
        return made[key]

    return export


def rounded_stock(case: str) -> StockModel:
    stock = StockModel(case)
    round_to_half(stock.model)
    return stock


@pytest.mark.parametrize("case", KINDS)
def test_ragged_steps_and_rollbacks_past_ten_windows_equal_stock(case: str, exported: Export) -> None:
    """Rings of halves wrap, and rejected drafts overwrite what is about to leave the window."""
    bundle, _ = exported(case, dtype="float16")
    session, stock = open_session(bundle), rounded_stock(case)
    request = Request.random(stock, [12 * WINDOW, 40, 63], SOURCES.get(case, ()))
    answers = [*start(session, request, [3, 23, 1]), *wander(session, request, seed=3)]
    expected = request.expected(stock)
    found = compare(answers, expected, "xnnpack", "float16")
    assert found.difference <= found.allowed < WRONG, found
    assert found.answers >= 150


@pytest.mark.parametrize("case", KINDS)
def test_an_export_is_verified_again_by_run_model(
    case: str, exported: Export, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle, report = exported(case, dtype="float16")
    assert report.logits_difference is not None
    assert main(["verify", str(bundle.root)]) == 0
    assert "first logits" in capsys.readouterr().out


@pytest.mark.parametrize("case", KINDS)
def test_caches_of_every_kind_are_halves(case: str, exported: Export) -> None:
    manifest = exported(case, dtype="float16")[0].manifest
    assert {cache.dtype for cache in manifest.caches} == {"float16"}
    for cache in manifest.caches:
        elements = 3 * cache.kv_heads * cache.slots * (cache.key_dim + cache.value_dim)
        assert cache.size_bytes == 2 * elements


def test_the_file_is_about_half_as_large(exported: Export) -> None:
    half, single = exported("gemma3", dtype="float16")[1], exported("gemma3", dtype="float32")[1]
    saved = single.programs["model.xnnpack.pte"] - half.programs["model.xnnpack.pte"]
    assert saved >= single.weights_bytes - half.weights_bytes > 0
    assert half.cache_bytes * 2 == single.cache_bytes


def test_quantized_models_keep_half_caches(exported: Export) -> None:
    bundle, report = exported("gemma3", dtype="float16", quantize="8da8w")
    assert {cache.dtype for cache in bundle.manifest.caches} == {"float16"}
    assert report.cache_bytes == exported("gemma3", dtype="float16")[1].cache_bytes
    assert report.logits_difference is not None
