"""Norms and rotations that models write out are found, whatever the family, and computed alike by one operator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export

from exporter.lower.executorch_rows import with_row_operators
from exporter.row_operators import operators, rms_norm, rotate

DIM = 8


class Layer(nn.Module):
    """A function of rows `[b, 2, t, 8]`, a weight `[8]` and rotary tables `[b, 1, t, 8]`."""

    def __init__(self, compute: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.compute = compute
        self.weight = nn.Parameter(torch.linspace(0.5, 2.0, DIM))

    def forward(self, rows: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        return self.compute(rows, self.weight, cosine, sine)


def turned(rows: Tensor) -> Tensor:
    return torch.cat((-rows[..., DIM // 2 :], rows[..., : DIM // 2]), dim=-1)


def llama_norm(rows: Tensor, weight: Tensor, *tables: Tensor) -> Tensor:
    return weight * (rows * torch.rsqrt(rows.pow(2).mean(-1, keepdim=True) + 1e-6))


def gemma_norm(rows: Tensor, weight: Tensor, *tables: Tensor) -> Tensor:
    return rows * torch.rsqrt(rows.pow(2).mean(-1, keepdim=True) + 1e-6) * (1.0 + weight)


def bare_norm(rows: Tensor, weight: Tensor, *tables: Tensor) -> Tensor:
    return rows * torch.rsqrt((rows * rows).mean(-1, keepdim=True) + 1e-5)


def rotation(rows: Tensor, weight: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    return rows * cosine + turned(rows) * sine


def transposed_rotation(rows: Tensor, weight: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    turned_rows = rows.transpose(1, 2).contiguous().transpose(1, 2)
    return rotation(turned_rows, weight, cosine, sine)


def squares_of_others(rows: Tensor, weight: Tensor, *tables: Tensor) -> Tensor:
    """Not a norm: the mean is of other rows than those it divides."""
    return rows * torch.rsqrt((rows + 1.0).pow(2).mean(-1, keepdim=True) + 1e-6)


def cosine_of_others(rows: Tensor, weight: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Not a rotation: the halves come from other rows."""
    return rows * cosine + turned(rows + 1.0) * sine


def inputs(batch: int, tokens: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = ((batch, 2, tokens, DIM), (batch, 1, tokens, DIM), (batch, 1, tokens, DIM))
    rows, cosine, sine = (torch.randn(shape, generator=generator) for shape in shapes)
    return rows, cosine, sine


def traced(compute: Callable[..., Tensor]) -> ExportedProgram:
    batch, tokens = Dim("b", min=1, max=4), Dim("t", min=1, max=9)
    shapes = ({0: batch, 2: tokens},) * 3
    return export(Layer(compute), inputs(2, 3), dynamic_shapes=shapes, strict=False)


def calls(program: ExportedProgram) -> Counter[str]:
    return Counter(str(node.target) for node in program.graph.nodes if node.op == "call_function")


@pytest.mark.parametrize("compute", [llama_norm, gemma_norm, bare_norm])
def test_a_norm_becomes_one_operator_with_its_weight(compute: Callable[..., Tensor]) -> None:
    changed = with_row_operators(traced(compute))
    assert calls(changed) == {"fixed_capacity.rms_norm.default": 1}
    torch.testing.assert_close(changed.module()(*inputs(4, 5)), Layer(compute)(*inputs(4, 5)), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("compute", [rotation, transposed_rotation])
def test_a_rotation_becomes_one_operator_over_rows_that_lie_together(compute: Callable[..., Tensor]) -> None:
    changed = with_row_operators(traced(compute))
    assert calls(changed)["fixed_capacity.rotate.default"] == 1
    assert not {"aten.cat.default", "aten.mul.Tensor"} & set(calls(changed))
    (call,) = (node for node in changed.graph.nodes if node.target is operators().rotate.default)
    assert call.args[0].meta["val"].is_contiguous()
    torch.testing.assert_close(changed.module()(*inputs(3, 4)), Layer(compute)(*inputs(3, 4)), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("compute", [squares_of_others, cosine_of_others])
def test_what_only_looks_alike_is_left_as_it_is(compute: Callable[..., Tensor]) -> None:
    changed = with_row_operators(traced(compute))
    assert not [name for name in calls(changed) if name.startswith("fixed_capacity")]


def test_the_references_are_the_formulas() -> None:
    rows, cosine, sine = inputs(2, 3)
    weight = torch.linspace(0.5, 2.0, DIM)
    torch.testing.assert_close(rms_norm(rows, weight, 1e-6), torch.nn.functional.rms_norm(rows, (DIM,), weight, 1e-6))
    torch.testing.assert_close(rotate(rows, cosine, sine), rows * cosine + turned(rows) * sine)
