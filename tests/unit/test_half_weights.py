"""What `--dtype float16` does to a model's weights before its answers are recorded, and for ONNX to its products."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from exporter.lower.executorch_weights import WeightStore
from exporter.spec.faults import ExportFailed
from exporter.weights.half import HalfLinear, compute_in_half, half_holds, round_to_half
from tests.support.tiny_models import CASES, build


def changed_weights(model: PreTrainedModel, before: dict[str, Tensor]) -> set[str]:
    return {name for name, weight in model.named_parameters() if not torch.equal(weight, before[name])}


@pytest.mark.parametrize("case", CASES)
def test_matrices_are_rounded_and_nothing_else(case: str) -> None:
    model = build(case)
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    tied = model.get_input_embeddings().weight is model.get_output_embeddings().weight
    round_to_half(model)
    changed = changed_weights(model, before)
    assert changed
    for name, weight in model.named_parameters():
        assert half_holds(weight) if name in changed else torch.equal(weight, before[name]), name
    assert all(before[name].dim() == 2 for name in changed), "norms, biases and convolutions stay in float32"
    assert (model.get_input_embeddings().weight is model.get_output_embeddings().weight) == tied
    assert half_holds(model.get_output_embeddings().weight)


def test_position_tables_and_relative_biases_are_not_rounded() -> None:
    gpt2, t5 = build("gpt2"), build("t5")
    round_to_half(gpt2)
    round_to_half(t5)
    assert not half_holds(gpt2.transformer.wpe.weight)
    assert not half_holds(t5.encoder.block[0].layer[0].SelfAttention.relative_attention_bias.weight)


def test_weights_beyond_the_range_of_half_are_refused_by_name_and_nothing_is_rounded() -> None:
    model = build("llama")
    layers = model.model.layers
    with torch.no_grad():
        layers[0].mlp.up_proj.weight[1, 2] = -70000.0
        layers[1].self_attn.q_proj.weight[0, 0] = torch.inf
        layers[1].mlp.up_proj.weight[0, 0] = 65504.0
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    with pytest.raises(ExportFailed) as refused:
        round_to_half(model)
    assert str(refused.value) == (
        "--dtype float16: model.layers.0.mlp.up_proj.weight holds 70000, beyond half precision's 65504; "
        "use --dtype float32; model.layers.1.self_attn.q_proj.weight holds inf, beyond half precision's 65504; "
        "use --dtype float32"
    )
    assert not changed_weights(model, before)


def test_only_what_loses_nothing_is_stored_in_half() -> None:
    rough = torch.randn(40, 8)
    rounded = rough.half().float()
    store = WeightStore(16)
    packed, layout = store.floats(rounded.clone(), transposed=False)
    assert (packed.dtype, layout.bits) == (torch.float16, 16)
    packed, layout = store.floats(rough, transposed=False)
    assert (packed.dtype, layout.bits) == (torch.float32, 32)
    packed, layout = WeightStore(32).floats(rounded, transposed=False)
    assert (packed.dtype, layout.bits) == (torch.float32, 32)


def test_only_feed_forward_outputs_of_t5_compute_in_float32_and_their_weights_are_halves() -> None:
    for case in ("t5", "mt5", "flan_t5", "bart"):
        half = build(case)
        compute_in_half(half)
        wide = {name for name, module in half.named_modules() if isinstance(module, HalfLinear) and module.is_wide}
        assert wide == {name for name, _ in half.named_modules() if name.endswith(".wo")}
        assert bool(wide) is (case != "bart")
        assert {half.get_submodule(name).weight.dtype for name in wide} <= {torch.float16}


@pytest.mark.parametrize("case", ["llama", "gemma3", "t5", "bart", "gpt2"])
def test_products_in_half_share_what_was_shared(case: str) -> None:
    model = build(case)
    is_tied = model.get_input_embeddings().weight is model.get_output_embeddings().weight
    matrices = sum(weight.dim() == 2 for weight in model.parameters())
    compute_in_half(model)
    assert (model.get_input_embeddings().weight is model.get_output_embeddings().weight) == is_tied
    assert sum(weight.dim() == 2 for weight in model.parameters()) == matrices
