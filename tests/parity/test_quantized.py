"""Quantized bundles of every kind of model: exported, verified, as large as planned, and equal to the quantized model.

The reference is the same quantized model in eager PyTorch, one unpadded row at a time. Two exact implementations differ
by steps of 8-bit activations now and then, which moves a few logits; all others must be as near as floats are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from exporter.bundle.tolerances import tolerance
from exporter.named_recipes import chosen_recipe
from exporter.pipeline import export_bundle
from exporter.report import ExportReport
from exporter.spec.recipe import Recipe
from exporter.spec.weight_format import WeightFormat
from exporter.weights.quantize import quantize_model
from runtime_shims.contract.bundle_reader import Bundle, read_bundle
from runtime_shims.native import operator_library_path
from runtime_shims.reference.generation import generate
from runtime_shims.reference.golden import read_golden
from runtime_shims.reference.loading import open_session
from runtime_shims.reference.replay import replay
from runtime_shims.reference.session import Session
from tests.parity.schedules import Request, start, wander
from tests.parity.support import StockModel
from tests.support.small_t5 import LONGEST, SMALL_T5, load, strings
from tests.support.tiny_models import CASES, build

OURS = pytest.mark.skipif(operator_library_path() is None, reason="the C++ operator library is not installed")
NAMED = (("t5", "t5-small"), ("gemma3", "gemma-3-270m"))
"""In the form that these recipes have on a phone: 8 bits, and caches of 16 or 8."""
FUSED = (
    ("t5", "8da4w", 4),
    ("whisper", "8da8w", 4),
    ("gemma3", "8da8w", 8),
    ("gemma3", "8da4w", 4),
    ("t5", "int8-weights-kv", 8),
    ("whisper", "int8-weights-kv", 8),
)
ONNX = (
    ("t5", {"quantize": "8da8w", "group_size": 0}),
    ("whisper", {"quantize": "8da4w", "group_size": 64}),
    ("gemma3", {"quantize": "8da4w", "embedding_bits": 4, "dtype": "float16"}),
)
EXPORTS = [
    *(pytest.param((case, name), id=f"{case}-as-{name}", marks=OURS) for case, name in NAMED),
    *(
        pytest.param((case, {"quantize": quantize, "embedding_bits": bits}), id=f"{case}-{quantize}-{bits}", marks=OURS)
        for case, quantize, bits in FUSED
    ),
    *(pytest.param((case, options | {"backends": ("onnx",)}), id=f"{case}-onnx-{number}")
      for number, (case, options) in enumerate(ONNX)),
]
ALLOWED = {"float32": (0.05, 1e-6), "float16": (0.09, 0.02), "int8": (0.09, 0.02)}
"""Largest and median difference relative to the largest logit, by the type of the caches: eager's are floats."""


@dataclass(frozen=True)
class Exported:
    """A bundle, and the quantized model that it must equal."""

    case: str
    bundle: Bundle
    report: ExportReport
    session: Session
    stock: StockModel


@pytest.fixture(scope="module", params=EXPORTS)
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    case, options = request.param
    directory = tmp_path_factory.mktemp("quantized")
    build(case).save_pretrained(directory / "checkpoint")
    limits = {
        "model": str(directory / "checkpoint"),
        "max_batch": 3,
        "max_enc": 24 if CASES[case].kind == "text_seq2seq" else None,
        "max_dec": 40,
        "max_draft": 2,
        "prefill_chunk": 5,
        "attention": "portable" if "backends" in options else "fused",
    }
    named = (options, "phone") if isinstance(options, str) else (None, None)
    recipe = chosen_recipe(*named, limits if isinstance(options, str) else limits | options).recipe
    report = export_bundle(recipe, directory / "out.bundle")
    bundle = read_bundle(directory / "out.bundle")
    stock = StockModel(case)
    quantize_model(stock.model, WeightFormat.of(bundle.manifest.recipe))
    return Exported(case, bundle, report, open_session(bundle), stock)


def test_the_file_is_as_large_as_its_weights_were_planned_to_be(exported: Exported) -> None:
    (size,) = exported.report.programs.values()
    planned, root = exported.report.weights_bytes, exported.bundle.root
    graphs = sum(path.stat().st_size for path in root.glob("*.onnx"))
    assert size - graphs <= 1.03 * planned + 80_000  # a tiny model's methods and padding outweigh its weights


def test_the_bundle_repeats_its_golden_answers(exported: Exported) -> None:
    golden = read_golden(exported.bundle)
    result = replay(exported.session, golden)
    assert result.logits_passed, result
    assert result.tokens_passed, result
    assert exported.report.logits_difference is not None


def differences(exported: Exported, request: Request, answers: Sequence[tuple[int, int, Tensor]]) -> Tensor:
    """Of every logit from the quantized eager model's, relative to the largest."""
    expected = request.expected(exported.stock)
    largest = max(1.0, *(float(row.abs().max()) for row in expected))
    found = [(logits.float() - expected[row][place]).abs() / largest for row, place, logits in answers]
    return torch.cat([row[row.isfinite()] for row in found])


def test_logits_equal_the_quantized_eager_model_over_ragged_steps_and_rollbacks(exported: Exported) -> None:
    request = Request.random(exported.stock, (20, 9, 14), (9, 4, 6), seed=3)
    answers = list(start(exported.session, request, (7, 3, 5))) + list(wander(exported.session, request, 5))
    found = differences(exported, request, answers)
    (cache_type,) = {cache.dtype for cache in exported.bundle.manifest.caches}
    recipe = exported.bundle.manifest.recipe
    assert cache_type == ("int8" if recipe.quantize == "int8-weights-kv" else recipe.dtype)
    largest, median = ALLOWED[cache_type]
    assert float(found.max()) < largest <= tolerance(recipe, recipe.backends[0]).relative
    assert float(found.median()) < median


@pytest.mark.parametrize(
    ("quantize", "embedding_bits", "backend", "least"),
    [
        pytest.param("8da8w", 8, "xnnpack", 39, marks=OURS),
        pytest.param("8da4w", 4, "xnnpack", 36, marks=OURS),
        pytest.param("int8-weights-kv", 8, "xnnpack", 39, marks=OURS),
        ("8da4w", 4, "onnx", 36),
    ],
)
def test_a_trained_model_still_does_its_task(
    quantize: str, embedding_bits: int, backend: str, least: int, tmp_path: Path
) -> None:
    """The small T5 reverses strings; 40 of them, eight to a batch."""
    recipe = Recipe(
        model=str(SMALL_T5), max_batch=8, max_enc=LONGEST + 1, max_dec=LONGEST + 4, max_draft=2, prefill_chunk=2,
        attention="portable" if backend == "onnx" else "fused", backends=(backend,), quantize=quantize,
        embedding_bits=embedding_bits,
    )  # fmt: skip
    export_bundle(recipe, tmp_path / "small.bundle")
    bundle, tokenizer = read_bundle(tmp_path / "small.bundle"), load()[1]
    session = open_session(bundle)
    golden = read_golden(bundle)
    found = replay(session, golden)
    assert found.tokens >= 8, "undecided tokens are left out of the golden answers; a trained model decides most"
    assert found.tokens_passed
    (first,) = golden.requests
    wrong = replace(first, tokens=((first.tokens[0][0] ^ 1, *first.tokens[0][1:]), *first.tokens[1:]))
    assert not replay(session, replace(golden, requests=(wrong,))).tokens_passed
    right, texts = 0, strings(40, seed=7)
    for at in range(0, 40, 8):
        batch = texts[at : at + 8]
        given = generate(session, [session.manifest.tokens.start] * 8, [tokenizer(text).input_ids for text in batch])
        right += sum(
            tuple(answer.tokens) == tuple(tokenizer(text[::-1]).input_ids)
            for answer, text in zip(given, batch, strict=True)
        )
    assert right >= least
