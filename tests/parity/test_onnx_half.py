"""`--dtype float16 --backend onnx`: products in half precision, held to rounded stock models in float32."""

from __future__ import annotations

from dataclasses import dataclass, replace

import onnx
import pytest
import torch
from onnx import TensorProto
from transformers import PreTrainedModel

from exporter.pipeline import export_bundle
from exporter.report import ExportReport
from exporter.spec.capacity_plan import CapacityPlan
from exporter.spec.recipe import Recipe
from exporter.weights.half import LARGEST, compute_in_half, round_to_half
from runtime_shims.cli import main
from runtime_shims.contract.bundle_reader import Bundle, read_bundle
from runtime_shims.reference.loading import open_session
from runtime_shims.reference.session import Session
from tests.parity.schedules import Request, compare, in_chunks, start, wander
from tests.parity.support import DEFAULT, WRONG, Planned, StockModel
from tests.support import tiny_models

SOURCES = {"t5": [24, 1, 9]}
KINDS = ("gemma3", "t5", "whisper")


def beyond_half(model: PreTrainedModel) -> PreTrainedModel:
    """T5 whose feed-forward outputs are larger than half precision holds, as those of real T5s are."""
    for name, module in model.named_modules():
        if name.endswith(".wo"):
            module.weight.mul_(3e4 / module.weight.abs().max())
    return model


def built(case: str) -> PreTrainedModel:
    """T5 overflows; the others are as all tests have them."""
    with torch.no_grad():
        return beyond_half(tiny_models.build(case)) if case == "t5" else tiny_models.build(case)


@dataclass(frozen=True)
class Exported:
    case: str
    bundle: Bundle
    report: ExportReport


@pytest.fixture(scope="module", params=KINDS)
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    directory = tmp_path_factory.mktemp("half")
    built(request.param).save_pretrained(directory / "checkpoint")
    limits = {"max_enc": 24} if request.param == "t5" else {}
    limits |= {"max_batch": 3, "max_dec": 100, "max_draft": 3, "prefill_chunk": 5}
    recipe = Recipe(str(directory / "checkpoint"), dtype="float16", backends=("onnx",), **limits)
    report = export_bundle(recipe, directory / "my.bundle")
    return Exported(request.param, read_bundle(directory / "my.bundle"), report)


def test_ragged_steps_and_rollbacks_past_ten_windows_equal_stock(exported: Exported) -> None:
    stock = StockModel(exported.case)
    stock.model = built(exported.case)
    round_to_half(stock.model)
    request = Request.random(stock, [96, 40, 63], SOURCES.get(exported.case, ()))
    session = open_session(exported.bundle)
    answers = [*start(session, request, [3, 23, 1]), *wander(session, request, seed=3)]
    found = compare(answers, request.expected(stock), "onnx", "float16")
    assert found.difference <= min(found.allowed, WRONG), found
    assert found.answers >= 150


def test_an_export_is_verified_again_by_run_model(exported: Exported, capsys: pytest.CaptureFixture[str]) -> None:
    assert exported.report.logits_difference is not None
    assert main(["verify", str(exported.bundle.root)]) == 0
    assert "first logits" in capsys.readouterr().out


def test_caches_products_and_their_weights_are_halves(exported: Exported) -> None:
    manifest = exported.bundle.manifest
    assert {cache.dtype for cache in manifest.caches} == {"float16"}
    assert sum(cache.size_bytes for cache in manifest.caches) == manifest.memory.cache_bytes
    graph = onnx.load(str(exported.bundle.root / "decode.onnx"), load_external_data=False).graph
    types = {initializer.name: initializer.data_type for initializer in graph.initializer}
    products = [node.input[1] for node in graph.node if node.op_type == "Gemm"]
    weights = [name for name in products if name.endswith(".weight")]  # T5's that are wide here have become constants
    assert len(weights) > len(products) / 2
    assert {types[name] for name in weights} == {TensorProto.FLOAT16}
    written = {value.type.tensor_type.elem_type for value in graph.output if value.name.startswith("present.")}
    assert written == {TensorProto.FLOAT16}


def half_session(case: str) -> Session:
    """The rung below the program: the method modules in eager PyTorch."""
    planned = Planned.of(case, "onnx")
    recipe = replace(DEFAULT.recipe(case, "portable", "onnx"), dtype="float16").resolve(planned.spec)
    compute_in_half(planned.model)
    half = replace(planned, plan=CapacityPlan.build(planned.spec, recipe))
    return half.session(half.methods)


@pytest.mark.parametrize("case", [case for case in tiny_models.CASES if case not in tiny_models.EXPERTS])
def test_every_family_says_in_half_what_its_rounded_stock_model_says(case: str) -> None:
    """Rotations, biases, scaled embeddings, transposed layers, soft caps: nothing meets a type it was not made for."""
    stock = StockModel(case)
    round_to_half(stock.model)
    session, request = half_session(case), Request.random(stock, [9, 4, 6], [9, 4, 6])
    found = compare(in_chunks(session, request, 3), request.expected(stock), "onnx", "float16")
    assert found.difference <= found.allowed, found


@torch.no_grad()
def test_feed_forward_outputs_of_t5_overflow_in_half_alone() -> None:
    """The control: with nothing kept in float32 the same model says nothing."""
    ids, decoder_ids = torch.arange(3, 12)[None], torch.tensor([[0, 5, 9]])
    model, largest = built("t5"), []
    for name, module in model.named_modules():
        if name.endswith(".wo"):
            module.register_forward_hook(lambda *called: largest.append(float(called[2].abs().max())))
    logits = model(input_ids=ids, decoder_input_ids=decoder_ids).logits
    assert min(largest) > LARGEST
    for kept in (["wo"], []):
        half = built("t5")
        half._keep_in_fp32_modules = kept
        compute_in_half(half)
        found = half(input_ids=ids, decoder_input_ids=decoder_ids).logits
        assert bool(found.isfinite().all()) is bool(kept)
        assert not kept or torch.allclose(found.float(), logits, atol=0.02 * float(logits.abs().max()))
