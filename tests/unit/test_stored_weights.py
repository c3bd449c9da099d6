"""Traces whose products and lookups read stored weights: each matrix once for all methods, no float left beside it.

Lowering is not needed to see it: these are the traces that `lower_programs` hands on.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from exporter.lower.executorch_forms import stored_tensors
from exporter.lower.executorch_weights import with_stored_weights
from exporter.models.methods import build_methods
from exporter.spec.capacity_plan import CapacityPlan
from exporter.spec.model_spec import ModelSpec
from exporter.spec.recipe import Recipe
from exporter.spec.weight_format import WeightFormat
from exporter.trace.methods import program_methods
from exporter.trace.trace import ExportedProgram, trace_methods
from exporter.weights.operators import operators
from exporter.weights.quantize import keep_integers_only, quantize_model
from tests.support.tiny_models import CASES, build

KINDS = ("t5", "whisper", "gpt2", "llama", "gemma3")
"""A shared table with two lookups, speech, transposed layers, a head of its own, a scaled lookup."""


@dataclass(frozen=True)
class Stored:
    plan: CapacityPlan
    programs: dict[str, ExportedProgram]

    def calls(self, name: str) -> list[torch.fx.Node]:
        """Every call of one of our operators, over all methods."""
        target = getattr(operators(), name).default
        return [node for program in self.programs.values() for node in program.graph.nodes if node.target == target]

    def tensors(self) -> list[Tensor]:
        """What the methods store, shared tensors once."""
        stored = [tensor for program in self.programs.values() for tensor in stored_tensors(program).values()]
        return list({id(tensor): tensor for tensor in stored}.values())


def stored(case: str, quantize: str) -> Stored:
    model = build(case)
    spec = ModelSpec.from_config(model.config)
    bits = None if quantize == "none" else 4
    recipe = Recipe("m", max_dec=24, attention="fused", quantize=quantize, embedding_bits=bits).resolve(spec)
    plan = CapacityPlan.build(spec, recipe)
    if quantize != "none":
        quantize_model(model, WeightFormat.of(recipe))
        keep_integers_only(model)
    traced = trace_methods(build_methods(model, plan, "fused"), program_methods(plan))
    return Stored(plan, with_stored_weights(traced, 32))


@pytest.fixture(scope="module", params=[f"{case} {quantize}" for case in KINDS for quantize in ("none", "8da4w")])
def example(request: pytest.FixtureRequest) -> Stored:
    return stored(*request.param.split())


def test_no_product_or_lookup_reads_a_weight_in_its_old_form(example: Stored) -> None:
    aten, ops = torch.ops.aten, operators()
    old = {aten.linear.default, aten.addmm.default, aten.embedding.default}
    old |= {ops.quantized_dense.default, ops.quantized_embedding.default}
    for program in example.programs.values():
        tensors = stored_tensors(program)
        left = [node for node in program.graph.nodes if node.target in old]
        read = [tensors[source] for node in left for source in node.all_input_nodes if source in tensors]
        # T5's attention slices its table of distances elsewhere, so its lookup stays as it is.
        assert all(tensor.shape[-1] == 4 for tensor in read), read
    assert example.calls("dense")
    assert example.calls("embed")


def test_each_matrix_is_stored_once_and_takes_about_the_bytes_that_were_planned(example: Stored) -> None:
    tensors = [tensor for tensor in example.tensors() if tensor.numel()]
    assert len({tensor.data_ptr() for tensor in tensors}) == len(tensors)
    # Float matrices are filled up to 32 features, which planning leaves out; tiny models have many small ones.
    assert 0.9 < sum(tensor.nbytes for tensor in tensors) / example.plan.weights_bytes < 1.35


@pytest.mark.parametrize("example", [f"{case} 8da4w" for case in KINDS], indirect=True)
def test_a_quantized_program_stores_no_matrix_of_floats_but_positions(example: Stored) -> None:
    read = {node.args[1] for node in example.calls("dense")}
    for program in example.programs.values():
        tensors = stored_tensors(program)
        assert not [node for node in read if node in tensors and tensors[node].is_floating_point()]
    looked_up = [node for node in example.calls("embed") if node.args[3] == example.plan.vocab_size]
    assert looked_up
    assert all(node.args[4] == 4 for node in looked_up)


def test_methods_that_read_one_matrix_read_one_tensor(example: Stored) -> None:
    by_name: dict[str, set[int]] = {}
    for program in example.programs.values():
        for node, tensor in stored_tensors(program).items():
            if node.name.startswith("b_stored_") or node.name.startswith("stored_"):
                by_name.setdefault(node.name, set()).add(id(tensor))
    assert by_name
    assert all(len(tensors) == 1 for tensors in by_name.values())


def _matrix_calls(program: ExportedProgram) -> set[torch.fx.Node]:
    ops = operators()
    targets = (ops.dense.default, ops.embed.default)
    return {node for node in program.graph.nodes if node.target in targets}


@pytest.mark.parametrize("case", ["t5", "gpt2", "gemma3"])
@pytest.mark.parametrize("quantize", ["none", "8da8w"])
def test_a_tied_head_multiplies_with_the_matrix_that_is_looked_up(case: str, quantize: str) -> None:
    example = stored(case, quantize)
    decode = example.programs["decode"]
    tensors, ops = stored_tensors(decode), operators()
    vocabulary = example.plan.vocab_size
    found = {
        id(tensors[node.args[1]])
        for node in _matrix_calls(decode)
        if vocabulary in node.args and (node.target == ops.embed.default or node.meta["val"].shape[-1] == vocabulary)
    }
    assert len(found) == 1


def test_a_head_of_its_own_is_another_matrix() -> None:
    example = stored("llama", "8da8w")
    tensors = stored_tensors(example.programs["decode"])
    (lookup,) = example.calls("embed")
    (head,) = [node for node in example.calls("dense") if node.meta["val"].shape[-1] == example.plan.vocab_size]
    assert tensors[lookup.args[1]] is not tensors[head.args[1]]


def test_rows_are_quantized_once_for_all_products_that_read_them() -> None:
    example = stored("llama", "8da8w")
    rows = example.calls("quantize_rows")
    assert len({node.args for node in rows}) == len(rows)
    layers = CASES["llama"].config().num_hidden_layers
    # Per layer: before query, key and value, before the output, before gate and up, before down; and before the head.
    assert len(rows) == 4 * layers + 1
    assert len(example.calls("dense")) == 7 * layers + 1


def test_a_weight_that_something_else_reads_too_stays_as_it_is() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(5, 4), requires_grad=False)
            self.other = nn.Linear(4, 4)

        def forward(self, rows: Tensor) -> Tensor:
            return nn.functional.linear(self.other(rows), self.weight) + self.weight.sum()

    rows, module = torch.randn(3, 4), Both().eval()
    want = module(rows)
    programs = with_stored_weights({"run": torch.export.export(module, (rows,))})
    dense = [node for node in programs["run"].graph.nodes if node.target == operators().dense.default]
    assert len(dense) == 1
    torch.testing.assert_close(programs["run"].module()(rows), want)


@pytest.mark.parametrize("case", ["gpt2", "llama"])
def test_the_rewritten_trace_computes_what_the_trace_did(case: str) -> None:
    class Body(nn.Module):
        """A product after a lookup, twice with one weight."""

        def __init__(self) -> None:
            super().__init__()
            model = build(case)
            self.table = model.get_input_embeddings()
            self.head = model.get_output_embeddings()

        def forward(self, indices: Tensor) -> Tensor:
            rows = self.table(indices)
            return self.head(rows) + self.head(rows.flip(0))

    indices, body = torch.tensor([[3, 4], [5, 6]]), Body()
    want = body(indices)
    programs = with_stored_weights({"run": torch.export.export(body, (indices,))})
    torch.testing.assert_close(programs["run"].module()(indices), want)
    names = [node.target for node in programs["run"].graph.nodes if node.target == operators().dense.default]
    assert len(names) == 2


class ReadBothWays(nn.Module):
    """One square matrix, multiplied with as it is and transposed."""

    def __init__(self) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.arange(64.0).view(8, 8), requires_grad=False)
        self.bias = nn.Parameter(torch.ones(8), requires_grad=False)

    def forward(self, rows: Tensor) -> Tensor:
        return torch.addmm(self.bias, nn.functional.linear(rows, self.matrix), self.matrix)


def test_a_matrix_that_is_read_both_ways_is_left_as_it_is() -> None:
    module, rows = ReadBothWays(), torch.randn(3, 8, generator=torch.Generator().manual_seed(0))
    expected = module(rows)
    changed = with_stored_weights({"decode": torch.export.export(module, (rows,), strict=False)}, 32)["decode"]
    torch.testing.assert_close(changed.module()(rows), expected)
    assert not [node for node in changed.graph.nodes if node.target == operators().dense.default]
