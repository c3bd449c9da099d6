"""Dead code leaves a traced graph; writes that matter stay, through views too."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.export import ExportedProgram, export

from exporter.trace.live_nodes import drop_dead_nodes


class Stateful(nn.Module):
    """A module with a buffer, a weight and a given computation."""

    def __init__(self, compute: Callable[[Stateful, Tensor], Tensor]) -> None:
        super().__init__()
        self.register_buffer("state", torch.zeros(4))
        self.weight = nn.Parameter(torch.ones(4), requires_grad=False)
        self.compute = compute

    def forward(self, values: Tensor) -> Tensor:
        return self.compute(self, values)


def dropped(compute: Callable[[Stateful, Tensor], Tensor]) -> tuple[ExportedProgram, list[str]]:
    """The program without dead nodes, and the operators that are left."""
    program = export(Stateful(compute), (torch.zeros(4),), strict=False)
    drop_dead_nodes(program)
    return program, [str(node.target) for node in program.graph.nodes if node.op == "call_function"]


def unused(module: Stateful, values: Tensor) -> Tensor:
    scratch = values * module.weight
    scratch.view(2, 2).add_(1)
    return values + 2


def written_through_a_view(module: Stateful, values: Tensor) -> Tensor:
    scratch = values * module.weight
    scratch.view(2, 2).add_(1)
    return scratch


def kept_in_the_buffer(module: Stateful, values: Tensor) -> Tensor:
    module.state.add_(values * module.weight)
    return values + 2


def kept_through_a_view(module: Stateful, values: Tensor) -> Tensor:
    module.state.view(2, 2).add_((values * module.weight).view(2, 2))
    return values + 2


def test_a_result_nobody_reads_leaves_with_its_writers_and_frees_its_weight() -> None:
    program, operators = dropped(unused)
    assert operators == ["aten.add.Tensor"]
    assert [node.name for node in program.graph.nodes if "weight" in node.name and node.users] == []


@pytest.mark.parametrize("compute", [written_through_a_view, kept_in_the_buffer, kept_through_a_view])
def test_writes_to_results_and_to_state_stay(compute: Callable[[Stateful, Tensor], Tensor]) -> None:
    module, values = Stateful(compute), torch.arange(4.0)
    expected, state = module(values), module.state.clone()
    program, operators = dropped(compute)
    assert "aten.add_.Tensor" in operators
    run = program.module()
    torch.testing.assert_close(run(values), expected)
    torch.testing.assert_close(run.state, state)
