"""Work is done once, and what a write separates is not taken for equal."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.export import ExportedProgram, export

from exporter.trace.live_nodes import drop_dead_nodes
from exporter.trace.shared_nodes import share_equal_nodes


class Layers(nn.Module):
    """Two layers that recompute a table, with a state that is written between two reads."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.zeros(4))

    def forward(self, values: Tensor) -> Tensor:
        first = values.unsqueeze(0).to(torch.float32) * torch.arange(4)
        before = self.state.index_select(0, torch.arange(4)) + 1
        self.state.index_put_((torch.arange(4),), values)
        after = self.state.index_select(0, torch.arange(4)) + 1
        second = values.unsqueeze(0) * torch.arange(4)
        return first + second * 2 + before - after


def shared() -> tuple[ExportedProgram, list[str]]:
    program = export(Layers(), (torch.ones(4),), strict=False)
    share_equal_nodes(program)
    return program, [str(node.target) for node in program.graph.nodes if node.op == "call_function"]


def test_equal_calls_are_made_once_and_empty_casts_never() -> None:
    _, operators = shared()
    assert operators.count("aten.unsqueeze.default") == 1
    assert operators.count("aten.arange.default") == 1
    assert operators.count("aten.mul.Tensor") == 2  # the product of both layers, and its double
    assert "aten.to.dtype" not in operators


def test_a_state_is_read_before_and_after_it_is_written() -> None:
    program, operators = shared()
    assert operators.count("aten.index_select.default") == 2
    values = torch.tensor([1.0, 2.0, 3.0, 4.0])
    assert torch.equal(program.module()(values), Layers()(values))


def test_a_cast_that_changes_the_type_stays() -> None:
    class Cast(nn.Module):
        def forward(self, values: Tensor) -> Tensor:
            return values.to(torch.float64).to(torch.float64) + 1

    program = export(Cast(), (torch.ones(4),), strict=False)
    share_equal_nodes(program)
    casts = [node for node in program.graph.nodes if str(node.target) == "aten.to.dtype"]
    assert len(casts) == 1
    assert program.module()(torch.ones(4)).dtype == torch.float64


class ReadsAroundAWrite(nn.Module):
    """Reads a state before and after one of its parts is written."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.full((4,), 2.0))

    def forward(self, values: Tensor) -> Tensor:
        first, _ = self.state.split(2)
        before = self.state * 2
        first.add_(values)
        return before + 10 * (self.state * 2)


def test_a_write_through_one_of_several_views_is_a_write() -> None:
    program = export(ReadsAroundAWrite(), (torch.ones(2),), strict=False)
    drop_dead_nodes(program)
    share_equal_nodes(program)
    assert torch.equal(program.module()(torch.ones(2)), ReadsAroundAWrite()(torch.ones(2)))


@pytest.mark.parametrize(
    ("compute", "operator", "calls"),
    [
        (lambda values: torch.rand(3) - torch.rand(3) + values, "aten.rand.default", 2),
        (lambda values: torch.where(values > 0, 0.0, values) / torch.where(values > 0, -0.0, values), "where", 2),
    ],
)
def test_random_numbers_and_signed_zeros_are_not_equal(compute, operator: str, calls: int) -> None:
    class Computes(nn.Module):
        def forward(self, values: Tensor) -> Tensor:
            return compute(values)

    program = export(Computes(), (torch.ones(3),), strict=False)
    share_equal_nodes(program)
    found = [node for node in program.graph.nodes if operator in str(node.target) and node.op == "call_function"]
    assert len(found) == calls
