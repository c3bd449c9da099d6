"""The C++ operators inside ExecuTorch programs, run from Python, equal the eager reference."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from exporter.cache import cached_attention as eager
from runtime_shims import native

pytestmark = pytest.mark.skipif(
    native.operator_library_path() is None, reason="the C++ operator library is not installed"
)

CACHE_ROWS, MAX_STEP, HEADS, KV_HEADS, HEAD_SIZE, SLOTS, WINDOW, HIDDEN = 4, 8, 4, 2, 8, 15, 8, 32
TOLERANCE = 1e-5  # fp32, other summation orders


class RingLayer(nn.Module):
    """One sliding attention layer over a ring of `SLOTS` slots, with a relative bias and a soft cap."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(HIDDEN, HEADS * HEAD_SIZE)
        self.key = nn.Linear(HIDDEN, KV_HEADS * HEAD_SIZE)
        self.value = nn.Linear(HIDDEN, KV_HEADS * HEAD_SIZE)
        self.output = nn.Linear(HEADS * HEAD_SIZE, HIDDEN)
        self.register_buffer("key_cache", torch.zeros(CACHE_ROWS, KV_HEADS, SLOTS, HEAD_SIZE))
        self.register_buffer("value_cache", torch.zeros(CACHE_ROWS, KV_HEADS, SLOTS, HEAD_SIZE))
        self.register_buffer("bias_table", torch.randn(HEADS, 6))
        self.operators = eager.operators()

    def heads(self, projected: Tensor, count: int) -> Tensor:
        batch, step_tokens, _ = projected.shape
        return projected.view(batch, step_tokens, count, HEAD_SIZE).transpose(1, 2).contiguous()

    def forward(self, hidden_BTC: Tensor, positions: Tensor, step_lengths: Tensor) -> Tensor:
        attended_BTHD = self.operators.cached_attention(
            self.heads(self.query(hidden_BTC), HEADS), self.heads(self.key(hidden_BTC), KV_HEADS),
            self.heads(self.value(hidden_BTC), KV_HEADS), self.key_cache, self.value_cache, positions,
            step_lengths, self.bias_table, 1, WINDOW, HEAD_SIZE**-0.5, 30.0,
        )
        return self.output(attended_BTHD.flatten(2))


class EncoderLayer(nn.Module):
    """Bidirectional attention, its keys in a cross cache, and queries over that cache, alone and beside a ring."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(HIDDEN, HEADS * HEAD_SIZE)
        for name in ("key_cache", "value_cache", "own_key_cache", "own_value_cache"):
            self.register_buffer(name, torch.zeros(CACHE_ROWS, HEADS, MAX_STEP, HEAD_SIZE))
        self.operators = eager.operators()

    def forward(self, hidden_BEC: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        batch, places, _ = hidden_BEC.shape
        states = self.project(hidden_BEC).view(batch, places, HEADS, HEAD_SIZE).transpose(1, 2).contiguous()
        encoded = self.operators.encoder_attention(states, states, states, lengths, None, 0, 0.3, None)
        written = self.operators.write_cross(states, states * 2.0, self.key_cache, self.value_cache, lengths)
        crossed = self.operators.cross_attention(states, self.key_cache, self.value_cache, written, 0.3, None)
        caches = (self.own_key_cache, self.own_value_cache, self.key_cache, self.value_cache)
        steps = (torch.zeros_like(lengths), lengths, written)
        merged = self.operators.merged_attention(states, states, states, *caches, *steps, 3, 0.3, None)
        return encoded.flatten(2), crossed.flatten(2), merged.flatten(2), written


def run_lowered(module: nn.Module, sample: tuple[Tensor, ...], dynamic: tuple[dict, ...],
                path: Path) -> Callable[..., list[Tensor]]:
    """Export with bounded dynamic dimensions, lower to XNNPACK, load from disk; returns the method."""
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
    from executorch.runtime import Runtime

    with torch.no_grad():
        exported = torch.export.export(module, sample, dynamic_shapes=dynamic, strict=False)
        edge = to_edge_transform_and_lower(
            exported,
            partitioner=[XnnpackPartitioner()],
            compile_config=EdgeCompileConfig(_check_ir_validity=False),
        )
        path.write_bytes(edge.to_executorch().buffer)
    native.load_operator_library()
    program = Runtime.get().load_program(path)
    method = program.load_method("forward")
    return lambda *inputs: method.execute(list(inputs))


@pytest.fixture(scope="module")
def ring(tmp_path_factory: pytest.TempPathFactory) -> tuple[RingLayer, Callable[..., list[Tensor]]]:
    torch.manual_seed(0)
    module = RingLayer().requires_grad_(False).eval()
    rows, step = torch.export.Dim("rows", max=CACHE_ROWS), torch.export.Dim("step", max=MAX_STEP)
    sample = (torch.randn(2, 3, HIDDEN), torch.tensor([0, 0]), torch.tensor([3, 3]))
    path = tmp_path_factory.mktemp("ring") / "ring.pte"
    return module, run_lowered(module, sample, ({0: rows, 1: step}, {0: rows}, {0: rows}), path)


def test_ragged_steps_with_rollbacks_equal_the_reference_over_ten_windows(ring):
    module, lowered = ring
    random = torch.Generator().manual_seed(1)
    positions = torch.zeros(CACHE_ROWS, dtype=torch.int64)
    for _ in range(30):
        rows = int(torch.randint(1, CACHE_ROWS + 1, (), generator=random))
        step = int(torch.randint(1, MAX_STEP + 1, (), generator=random))
        lengths = torch.randint(0, step + 1, (rows,), generator=random)
        inputs = (torch.randn(rows, step, HIDDEN, generator=random), positions[:rows].clone(), lengths)
        torch.testing.assert_close(lowered(*inputs)[0], module(*inputs), atol=TOLERANCE, rtol=TOLERANCE)
        rejected = (torch.rand(rows, generator=random) * (lengths + 1)).long()
        positions[:rows] += lengths - torch.minimum(rejected, lengths)


def test_a_refused_step_fails_and_leaves_the_caches_as_they_were(ring):
    module, lowered = ring
    hidden, positions = torch.randn(1, 2, HIDDEN), torch.tensor([5])
    with pytest.raises(RuntimeError):
        lowered(hidden, positions, torch.tensor([3]))  # 3 of 2 tokens
    with pytest.raises(RuntimeError):
        lowered(hidden, torch.tensor([-1]), torch.tensor([2]))
    inputs = (hidden, positions, torch.tensor([1]))
    torch.testing.assert_close(lowered(*inputs)[0], module(*inputs), atol=TOLERANCE, rtol=TOLERANCE)


def test_encoder_cross_and_merged_attention_equal_the_reference(tmp_path):
    torch.manual_seed(2)
    module = EncoderLayer().requires_grad_(False).eval()
    rows, places = torch.export.Dim("rows", max=CACHE_ROWS), torch.export.Dim("places", max=MAX_STEP)
    sample = (torch.randn(2, 3, HIDDEN), torch.tensor([3, 2]))
    lowered = run_lowered(module, sample, ({0: rows, 1: places}, {0: rows}), tmp_path / "encoder.pte")
    for shape, lengths in [((4, 8), [8, 0, 3, 5]), ((1, 1), [1]), ((3, 5), [0, 5, 1])]:
        inputs = (torch.randn(*shape, HIDDEN), torch.tensor(lengths))
        for got, want in zip(lowered(*inputs), module(*inputs), strict=True):
            torch.testing.assert_close(got, want, atol=TOLERANCE, rtol=TOLERANCE)
