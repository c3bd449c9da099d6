"""The graph checks fail on the graphs they are there for; the smallest encoder-decoder passes them.

Shape legend: b rows, T step tokens, E encoder positions, C hidden size.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

from exporter.cache.cache_layer import CacheLayer
from exporter.cache.cached_attention import operators
from exporter.trace.graph_checks import LARGEST_CONSTANT_BYTES, GraphCheckError, check_graphs
from runtime_shims.contract.cache_geometry import CacheGeometry, CrossGeometry

ROWS, HEADS, HEAD_SIZE, HIDDEN, PLACES = 2, 2, 4, 8, 6
LENGTHS = torch.tensor([3, 2])


class Root(nn.Module):
    """One decoder layer: a ring, a cross cache, and the projections that fill them."""

    def __init__(self) -> None:
        super().__init__()
        shape = (ROWS, HEADS, HEAD_SIZE, HEAD_SIZE)
        self.self_layers = nn.ModuleList([CacheLayer(CacheGeometry("sliding", 4, 3), shape)])
        self.cross_layers = nn.ModuleList([CacheLayer(CrossGeometry(PLACES), shape)])
        self.decoder = nn.ModuleDict({name: nn.Linear(HIDDEN, HIDDEN) for name in ("own", "cross", "self_attn")})

    def heads(self, name: str, hidden_bTC: Tensor) -> Tensor:
        projected = self.decoder[name](hidden_bTC)
        return projected.unflatten(2, (HEADS, HEAD_SIZE)).transpose(1, 2).contiguous()


class Encode(nn.Module):
    def __init__(self, root: Root) -> None:
        super().__init__()
        self.root = root

    def forward(self, hidden_bEC: Tensor, lengths: Tensor) -> Tensor:
        states, layer = self.root.heads("cross", hidden_bEC), self.root.cross_layers[0]
        return operators().write_cross(states, states, layer.key_cache, layer.value_cache, lengths)


class EncodeMerged(Encode):
    """The encoder's keys are made by the projection that also makes the decoder's own."""

    def forward(self, hidden_bEC: Tensor, lengths: Tensor) -> Tensor:
        states, layer = self.root.heads("self_attn", hidden_bEC), self.root.cross_layers[0]
        return operators().write_cross(states, states, layer.key_cache, layer.value_cache, lengths)


class Decode(nn.Module):
    """Right as it is; `fault` adds what a wrong model or exporter would."""

    def __init__(self, root: Root, fault: Callable[[Decode, Tensor], Tensor] | None = None) -> None:
        super().__init__()
        self.root = root
        self.fault = fault
        self.calls = nn.Buffer(torch.zeros(1))
        self.stray = (torch.zeros(LARGEST_CONSTANT_BYTES // 4 + 1),)  # plain: export lifts it as a constant

    def forward(self, hidden_bTC: Tensor, positions: Tensor, lengths: Tensor) -> Tensor:
        own, ring, cross = self.root.heads("own", hidden_bTC), self.root.self_layers[0], self.root.cross_layers[0]
        caches = (ring.key_cache, ring.value_cache)
        out = operators().cached_attention(own, own, own, *caches, positions, lengths, None, 0, 4, 1.0, None)
        query = out.transpose(1, 2).contiguous()
        out = operators().cross_attention(query, cross.key_cache, cross.value_cache, lengths, 1.0, None).flatten(2)
        return out if self.fault is None else out + self.fault(self, hidden_bTC)


def projects_the_encoder_output_again(decode: Decode, hidden_bTC: Tensor) -> Tensor:
    return decode.root.heads("cross", hidden_bTC).sum()


def projects_the_step(decode: Decode, hidden_bTC: Tensor) -> Tensor:
    return decode.root.heads("self_attn", hidden_bTC).sum()


def projects_the_step_and_more(decode: Decode, hidden_bTC: Tensor) -> Tensor:
    return projects_the_step(decode, hidden_bTC) + projects_the_step(decode, hidden_bTC + 1.0)


def copies_a_cache(decode: Decode, hidden_bTC: Tensor) -> Tensor:
    return decode.root.self_layers[0].key_cache.clone().sum()


def keeps_a_flag(decode: Decode, hidden_bTC: Tensor) -> Tensor:
    decode.calls.add_(1.0)
    return decode.calls.sum()


def holds_a_weight_as_a_constant(decode: Decode, hidden_bTC: Tensor) -> Tensor:
    return decode.stray[0].sum()


def writes_a_cross_cache(decode: Decode, hidden_bTC: Tensor) -> Tensor:
    states, layer = decode.root.heads("own", hidden_bTC), decode.root.cross_layers[0]
    return operators().write_cross(states, states, layer.key_cache, layer.value_cache, LENGTHS.clone()).sum()


class WritesNothing(Decode):
    """A step whose keys and values never reach the ring, which is only read."""

    def forward(self, hidden_bTC: Tensor, positions: Tensor, lengths: Tensor) -> Tensor:
        own, layers = self.root.heads("own", hidden_bTC), (self.root.self_layers[0], self.root.cross_layers[0])
        for layer in layers:
            own = operators().cross_attention(own, layer.key_cache, layer.value_cache, lengths, 1.0, None)
            own = own.transpose(1, 2).contiguous()
        return own


def traced(decode: Decode, encode: type[Encode] = Encode) -> dict[str, ExportedProgram]:
    hidden, step = torch.randn(ROWS, PLACES, HIDDEN), torch.randn(ROWS, 3, HIDDEN)
    with torch.no_grad():
        return {
            "encode": torch.export.export(encode(decode.root), (hidden, LENGTHS), strict=False),
            "decode": torch.export.export(decode, (step, torch.tensor([0, 5]), LENGTHS), strict=False),
        }


def test_the_smallest_encoder_decoder_passes() -> None:
    check_graphs(traced(Decode(Root())))


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (projects_the_encoder_output_again, r"decode: projects encoder keys or values again with .*cross\.weight"),
        (copies_a_cache, r"decode: copies the cache .*self_layers\.0\.key_cache whole through aten\.clone"),
        (keeps_a_flag, r"decode: writes calls, which is not a cache of this method"),
        (holds_a_weight_as_a_constant, r"decode: holds the constant .* of 65540 bytes beside the weights"),
        (writes_a_cross_cache, r"decode: writes .*cross_layers\.0\.key_cache, which is not a cache of this method"),
    ],
)
def test_a_bad_decode_graph_is_refused_by_name(fault: Callable[[Decode, Tensor], Tensor], message: str) -> None:
    with pytest.raises(GraphCheckError, match=message) as refused:
        check_graphs(traced(Decode(Root(), fault)))
    assert "\n" not in str(refused.value)


def test_one_projection_may_serve_the_step_and_the_encoder_but_only_once_in_decode() -> None:
    check_graphs(traced(Decode(Root(), projects_the_step), EncodeMerged))
    with pytest.raises(GraphCheckError, match=r"projects encoder keys or values again with .*self_attn\.weight"):
        check_graphs(traced(Decode(Root(), projects_the_step_and_more), EncodeMerged))


def test_a_cache_that_is_never_written_is_refused_by_name() -> None:
    with pytest.raises(GraphCheckError, match=r"decode: never writes the cache .*self_layers\.0\.key_cache"):
        check_graphs(traced(WritesNothing(Root())))


def test_every_fault_of_every_method_is_listed_at_once() -> None:
    def both(decode: Decode, hidden_bTC: Tensor) -> Tensor:
        return keeps_a_flag(decode, hidden_bTC) + copies_a_cache(decode, hidden_bTC)

    programs = traced(Decode(Root(), both))
    with pytest.raises(GraphCheckError) as refused:
        check_graphs({"decode": programs["decode"], "encode": programs["decode"]})
    assert len(refused.value.faults) >= 4
