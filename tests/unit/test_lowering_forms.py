"""Programs are rewritten into what XNNPACK takes without changing what they compute, and grouped without cycles."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export
from torch.fx import Graph, GraphModule, Node

from exporter.lower.executorch_forms import half_rotation, in_xnnpack_forms
from exporter.lower.executorch_partition import by_level, partitioner_for
from exporter.lower.lazy_graph_code import lazy_graph_code
from exporter.trace.shared_nodes import share_equal_nodes


class Computes(nn.Module):
    """A module of one function."""

    def __init__(self, compute: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.compute = compute

    def forward(self, values: Tensor) -> Tensor:
        return self.compute(values)


def traced(compute: Callable[[Tensor], Tensor], size: int = 8) -> ExportedProgram:
    """The program over `[b, size]` with a dynamic b."""
    rows = {0: Dim("b", min=1, max=9)}
    return export(Computes(compute), (torch.ones(3, size),), dynamic_shapes=(rows,), strict=False)


def operators(program: ExportedProgram) -> list[str]:
    return [str(node.target) for node in program.graph.nodes if node.op == "call_function"]


def norm(values: Tensor) -> Tensor:
    return values * torch.rsqrt(values.pow(2).mean(-1, keepdim=True) + 1e-6)


def rotate(values: Tensor) -> Tensor:
    return torch.cat((-values[..., values.shape[-1] // 2 :], values[..., : values.shape[-1] // 2]), dim=-1)


@pytest.mark.parametrize("compute", [norm, rotate, lambda values: norm(rotate(values)) + rotate(norm(values))])
@pytest.mark.parametrize("size", [2, 8, 256])
def test_a_mean_and_a_rotation_become_products_with_equal_results(
    compute: Callable[[Tensor], Tensor], size: int
) -> None:
    program = traced(compute, size)
    changed = in_xnnpack_forms(program)
    assert not {"aten.mean.dim", "aten.cat.default", "aten.slice.Tensor", "aten.add.Scalar"} & set(operators(changed))
    values = torch.randn(5, size, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(changed.module()(values), compute(values), rtol=1e-6, atol=1e-6)


def test_the_program_that_was_given_stays_as_it_was() -> None:
    program = traced(norm)
    before = operators(program)
    in_xnnpack_forms(program)
    assert operators(program) == before
    assert not program.state_dict


def test_a_norms_epsilon_is_the_bias_of_its_mean_and_not_of_a_mean_that_is_used_twice() -> None:
    changed = in_xnnpack_forms(traced(norm))
    assert "aten.add.Tensor" not in operators(changed)
    assert [float(value) for name, value in changed.state_dict.items() if "epsilon" in name] == [pytest.approx(1e-6)]
    twice = traced(lambda values: (values.mean(-1, keepdim=True) + 2.0) * values.mean(-1, keepdim=True))
    share_equal_nodes(twice)
    values = torch.randn(4, 8, generator=torch.Generator().manual_seed(1))
    mean = values.mean(-1, keepdim=True)
    torch.testing.assert_close(in_xnnpack_forms(twice).module()(values), (mean + 2) * mean)
    assert operators(in_xnnpack_forms(twice)).count("aten.add.Tensor") == 1


def test_nodes_of_one_size_share_their_constant() -> None:
    changed = in_xnnpack_forms(traced(lambda values: norm(norm(values)) + rotate(rotate(values))))
    assert [name for name in sorted(changed.state_dict) if "epsilon" not in name] == ["mean_of_8", "rotate_half_of_8"]


@pytest.mark.parametrize(
    "compute",
    [
        lambda values: values.mean(0, keepdim=True).expand(values.shape[0], -1),
        lambda values: values.mean(-1),
        lambda values: values.half().mean(-1, keepdim=True),
        lambda values: rotate(values.half()),
        lambda values: values.mean((0, 1), keepdim=True),
        lambda values: torch.cat((values[..., 4:], values[..., :4]), dim=-1),
        lambda values: torch.cat((-values[..., 4:], values[..., :3]), dim=-1),
        lambda values: torch.cat((-values[..., 2:6], values[..., :4]), dim=-1),
        lambda values: torch.cat((-values[..., 2:4], values[..., :2]), dim=-1),
        lambda values: torch.cat((-values[..., 4:7], values[..., :4]), dim=-1),
        lambda values: torch.cat((-values[..., 4:], (values + 1)[..., :4]), dim=-1),
        lambda values: torch.cat((-values[..., :4], values[..., 4:]), dim=-1),
    ],
)
def test_what_only_looks_like_one_of_them_is_left_alone(compute: Callable[[Tensor], Tensor]) -> None:
    program = traced(compute)
    assert operators(in_xnnpack_forms(program)) == operators(program)


class Scaled(nn.Module):
    """A norm's scale, with a state that is written."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(8.0), requires_grad=False)
        self.register_buffer("state", torch.ones(8))

    def forward(self, values: Tensor) -> Tensor:
        self.state.copy_(values[0])
        return values * (1.0 + self.weight) * (1.0 + self.state)


def test_what_depends_on_weights_alone_is_computed_once_and_state_is_not() -> None:
    program = export(Scaled(), (torch.full((3, 8), 2.0),), strict=False)
    changed = in_xnnpack_forms(program)
    assert operators(program).count("aten.add.Tensor") == 2
    assert operators(changed).count("aten.add.Tensor") == 1
    assert any(torch.equal(value, torch.arange(8.0) + 1) for value in changed.state_dict.values())
    values = torch.full((3, 8), 2.0)
    assert torch.equal(changed.module()(values), Scaled()(values))


class ReadsCache(nn.Module):
    """Reads a cache that another method of the program writes."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Module()
        self.layer.register_buffer("key_cache", torch.zeros(2, 4))

    def forward(self, values: Tensor) -> Tensor:
        return values @ self.layer.key_cache.view(8, 1)


def test_a_cache_that_another_method_writes_is_not_a_constant() -> None:
    changed = in_xnnpack_forms(export(ReadsCache(), (torch.ones(3, 8),), strict=False))
    assert list(changed.state_dict) == ["layer.key_cache"]
    assert "aten.view.default" in operators(changed)


def test_a_rotation_matrix_rotates_by_a_quarter_turn() -> None:
    matrix = half_rotation(6)
    torch.testing.assert_close(matrix @ matrix, -torch.eye(6))


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Graph, set[Node]]:
    """A random graph of calls, and which of them a backend supports."""
    graph, supported = Graph(), set()
    nodes = [graph.placeholder("values")]
    for _ in range(draw(st.integers(1, 25))):
        sources = draw(st.lists(st.sampled_from(nodes), min_size=1, max_size=3))
        nodes.append(graph.call_function(max, tuple(sources)))
        if draw(st.booleans()):
            supported.add(nodes[-1])
    return graph, supported


@given(graphs())
def test_no_group_waits_for_itself_and_every_supported_node_is_in_one(case: tuple[Graph, set[Node]]) -> None:
    graph, supported = case
    groups = by_level(graph, supported)
    assert sorted(node.name for group in groups.values() for node in group) == sorted(node.name for node in supported)
    for group in groups.values():
        members, left = set(group), set()
        for node in graph.nodes:  # `left` is what depends on the group and lies outside
            if any(source in members or source in left for source in node.all_input_nodes) and node not in members:
                left.add(node)
            assert not (node in members and any(source in left for source in node.all_input_nodes))


def test_a_module_edited_without_writing_its_code_computes_the_edited_graph() -> None:
    with lazy_graph_code():
        program = traced(lambda values: values + 1)
        module = GraphModule(program.module(), program.module().graph)
        for node in module.graph.nodes:
            if node.target == torch.ops.aten.add.Tensor:
                node.args = (node.args[0], 5)
        module.recompile()
        assert "_code" not in module.__dict__
        assert str(module).startswith("GraphModule")
        assert torch.equal(module(torch.zeros(2, 8)), torch.full((2, 8), 5.0))
        module.recompile()
        assert "5" in module.code
    assert "def forward" in str(module)


@pytest.mark.parametrize("varying", [1, 2])
def test_a_size_of_one_added_behind_sizes_that_vary_lowers_to_xnnpack(varying: int) -> None:
    """XNNPACK's own rules take the second one and then fail to serialize it."""
    rows, columns = Dim("b", min=1, max=9), Dim("t", min=1, max=7)
    shapes = ({0: rows, 1: columns} if varying == 2 else {0: rows},)
    module = Computes(lambda values: (values * 2.0).unsqueeze(-1) + 1.0)
    program = export(module, (torch.ones(3, 4),), dynamic_shapes=shapes, strict=False)
    config = EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=True)
    edge = to_edge_transform_and_lower(program, partitioner=[partitioner_for(program)], compile_config=config)
    assert "executorch_call_delegate" in str(edge.exported_program().graph)
