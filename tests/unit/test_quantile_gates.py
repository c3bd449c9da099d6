"""Gates cut at a quantile equal transformers' own, and nothing of the quantile is left in a graph."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.export import export

from exporter.models.quantile_gates import CutAtQuantile, write_out_quantiles
from tests.support.tiny_models import build


def feed_forward() -> nn.Module:
    """The first layer's, whose gates are cut."""
    return build("gemma3n").model.layers[0].mlp


def rows(scale: float = 1.0, shift: float = 0.3) -> Tensor:
    return shift + scale * torch.randn(2, 7, 32, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("share", [0.05, 0.5, 0.95, 0.999])
def test_a_layer_answers_as_before_with_its_cut_written_out(share: float) -> None:
    layer = feed_forward()
    layer.activation_sparsity = share
    stock = copy.deepcopy(layer)
    write_out_quantiles(layer)
    torch.testing.assert_close(layer(rows()), stock(rows()), rtol=1e-5, atol=1e-5)
    write_out_quantiles(layer)  # a second time there is nothing left to do
    torch.testing.assert_close(layer(rows()), stock(rows()), rtol=1e-5, atol=1e-5)
    stock.activation_sparsity = share / 2  # the control
    assert not torch.allclose(layer(rows()), stock(rows()), rtol=1e-5, atol=1e-5)


def test_the_share_of_normal_values_is_cut_off() -> None:
    values = torch.randn(3, 20_000, generator=torch.Generator().manual_seed(1))
    passed = CutAtQuantile(nn.Identity(), 0.95)(values) > 0
    torch.testing.assert_close(passed.float().mean(-1), torch.full((3,), 0.05), rtol=0.0, atol=0.005)


def test_gates_in_half_precision_do_not_overflow_where_their_squares_would() -> None:
    values = rows(scale=400.0)
    given = CutAtQuantile(nn.Identity(), 0.9)(values.half())
    assert given.dtype == torch.float16
    torch.testing.assert_close(given.float(), CutAtQuantile(nn.Identity(), 0.9)(values), rtol=2e-3, atol=2.0)


def test_a_graph_holds_neither_the_inverse_error_function_nor_a_deviation() -> None:
    def calls(layer: nn.Module) -> str:
        return " ".join(str(node.target) for node in export(layer, (rows(),), strict=False).graph.nodes)

    layer = feed_forward()
    assert "erfinv" in calls(layer)
    write_out_quantiles(layer)
    assert not {"aten.erfinv.default", "aten.std.dim"} & set(calls(layer).split())


def test_a_layer_that_cuts_nothing_keeps_its_activation() -> None:
    layer = build("gemma3n").model.layers[2].mlp
    activation = layer.act_fn
    write_out_quantiles(layer)
    assert layer.act_fn is activation
