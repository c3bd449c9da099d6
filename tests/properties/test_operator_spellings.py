"""Eager reference, C++ kernel, core and ONNX form of the cache operator equal attention over plain lists.

Every test runs all installed spellings on the same random shapes, fills, windows, ring wraps, rollbacks,
grouped heads, biases and soft caps, and compares outputs and cache contents. The plain lists hold whole rows:
no ring, no slots, no masks.

Shape legend: see `tests/support/operator_spellings.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from runtime_shims.contract.cache_geometry import CacheGeometry, CrossGeometry
from runtime_shims.contract.sequence_cursor import SequenceCursor
from runtime_shims.native import operator_library_path
from tests.support.operator_spellings import (
    Heads,
    Operator,
    Options,
    assert_near,
    plain_attention,
    spellings,
)

MAX_CONTEXT = 60
STALE = 7.5  # what a slot holds before anything is written; forms of several operators need finite caches
FINITE = ("core", "onnx")
NAN_SAFE = ("eager",) if operator_library_path() is None else ("eager", "kernel")
INSTALLED = (*NAN_SAFE, *FINITE)
with_stale = pytest.mark.parametrize(
    ("names", "stale"), [(INSTALLED, STALE), (NAN_SAFE, math.nan)], ids=["finite", "NaN"]
)


class OneSlotShort(CacheGeometry):
    """The negative control: a ring as the law sizes it, less one slot."""

    @property
    def slots(self) -> int:
        return super().slots - 1


@st.composite
def head_sizes(draw: st.DrawFn) -> Heads:
    dims = st.sampled_from([1, 3, 4, 8, 16, 20])
    rows, kv_heads, groups = (draw(st.integers(1, 3)) for _ in range(3))
    return Heads(rows, kv_heads, groups, draw(dims), draw(dims))


@st.composite
def score_options(draw: st.DrawFn, heads: Heads, *, bias: bool = True, sinks: bool = False) -> Options:
    """Scale, soft cap, bias table and sinks; origins past either end of the table, so that both ends clamp.

    Sinks lie far below, among and far above the scores.
    """
    softcap = draw(st.sampled_from([None, None, 1.5, 20.0]))
    scale, query_heads = draw(st.sampled_from([1.0, 0.3, heads.key_dim**-0.5])), heads.kv_heads * heads.groups
    options = Options(scale, softcap)
    if sinks and draw(st.booleans()):
        spread = draw(st.sampled_from([1.0, 30.0, 200.0]))
        options = replace(options, sinks=spread * torch.randn(query_heads, generator=seeded(1)))
    if not bias or draw(st.booleans()):
        return options
    entries = draw(st.integers(1, 9))
    table = torch.randn(query_heads, entries, generator=seeded(entries))
    return replace(options, bias_table=table, bias_origin=draw(st.integers(-2, entries + 1)))


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@dataclass
class History:
    """The keys and values of one row, one entry per position: what the ring must be equal to."""

    keys: list[Tensor] = field(default_factory=list)
    values: list[Tensor] = field(default_factory=list)

    def write(self, key_KTD: Tensor, value_KTD: Tensor, count: int) -> None:
        self.keys += [key_KTD[:, token] for token in range(count)]
        self.values += [value_KTD[:, token] for token in range(count)]

    def rollback(self, count: int) -> None:
        del self.keys[len(self.keys) - count :], self.values[len(self.values) - count :]

    def attend(self, query_HD: Tensor, position: int, reach: int | None, options: Options) -> Tensor:
        first = 0 if reach is None else max(0, position - reach + 1)
        seen = slice(first, position + 1)
        distances = position - torch.arange(first, position + 1)
        keys, values = torch.stack(self.keys[seen], 1), torch.stack(self.values[seen], 1)
        return plain_attention(query_HD, keys, values, distances, options)


@dataclass
class Run:
    """Spellings, cursors and plain lists that take the same steps."""

    heads: Heads
    geometry: CacheGeometry
    options: Options
    operators: dict[str, Operator]
    generator: torch.Generator

    def __post_init__(self) -> None:
        reach = MAX_CONTEXT if self.geometry.kind == "full" else self.geometry.reach
        law = CacheGeometry(self.geometry.kind, reach, self.geometry.max_step)
        self.cursor = SequenceCursor(self.heads.rows, MAX_CONTEXT, [law])
        self.rows = [History() for _ in range(self.heads.rows)]

    def step(self, lengths: list[int], width: int) -> dict[str, tuple[Tensor, Tensor]]:
        """Run one step on every spelling; `(output, expected)` `[b, T, H, Dv]` of each."""
        batch = len(lengths)
        states = self.heads.step(batch, width, self.generator)
        starts = [self.cursor.length(row) for row in range(batch)]
        for row, count in enumerate(lengths):
            self.cursor.advance(row, count)
            self.rows[row].write(states[1][row], states[2][row], count)
        expected = torch.zeros(batch, width, self.heads.kv_heads * self.heads.groups, self.heads.value_dim)
        reach = None if self.geometry.kind == "full" else self.geometry.reach
        for row, count in enumerate(lengths):
            for token in range(count):
                query, position = states[0][row, :, token], starts[row] + token
                expected[row, token] = self.rows[row].attend(query, position, reach, self.options)
        inputs = (states, torch.tensor(starts), torch.tensor(lengths), self.options)
        return {name: (made.self_attention(*inputs), expected) for name, made in self.operators.items()}

    def look_back(self, reach: int | None) -> dict[str, tuple[Tensor, Tensor]]:
        """A query at the last position of every row that could take it back, over what the steps left, unwritten."""
        batch, options = self.heads.rows, replace(self.options, sinks=None)
        query, _, _ = self.heads.step(batch, 1, self.generator)
        lengths = [min(self.cursor.max_rollback(row), 1) for row in range(batch)]
        last = [max(self.cursor.length(row) - 1, 0) for row in range(batch)]
        expected = torch.zeros(batch, 1, self.heads.kv_heads * self.heads.groups, self.heads.value_dim)
        for row in range(batch):
            if lengths[row]:
                expected[row, 0] = self.rows[row].attend(query[row, :, 0], last[row], reach, options)
        inputs = (query, torch.tensor(last), torch.tensor(lengths), options)
        return {name: (made.shared_attention(*inputs), expected) for name, made in self.operators.items()}

    def rollback(self, row: int, count: int) -> None:
        self.cursor.rollback(row, count)
        self.rows[row].rollback(count)


def assert_padding_is_zero(output_bTHD: Tensor, lengths: list[int], name: str) -> None:
    for row, count in enumerate(lengths):
        assert torch.equal(output_bTHD[row, count:], torch.zeros_like(output_bTHD[row, count:])), name


def assert_equal_caches(operators: dict[str, Operator]) -> None:
    """Writes are copies: the caches of all spellings are bit for bit the same, stale slots included."""
    reference = operators["eager"].caches()
    for name, operator in operators.items():
        for got, want in zip(operator.caches(), reference, strict=True):
            assert torch.equal(got.nan_to_num(nan=-99.0), want.nan_to_num(nan=-99.0)), name


@with_stale
@settings(max_examples=40, deadline=None)
@given(st.data(), head_sizes(), st.booleans(), st.integers(1, 9), st.integers(1, 6))
def test_steps_and_chained_rollbacks_equal_plain_lists(
    names, stale, data, heads, is_full, reach, max_step
) -> None:
    """Unwritten slots hold `stale`, rolled-back ones what was rejected: neither is ever seen."""
    options = data.draw(score_options(heads, sinks=True))
    geometry = CacheGeometry("full", MAX_CONTEXT, max_step)
    if not is_full:
        geometry = CacheGeometry("sliding", reach, max_step)
    operators = spellings(geometry, heads, stale=stale, names=names)
    run = Run(heads, geometry, options, operators, seeded(data.draw(st.integers(0, 999))))
    for _ in range(data.draw(st.integers(1, 7))):
        batch, width = data.draw(st.integers(1, heads.rows)), data.draw(st.integers(1, max_step))
        rooms = [min(width, run.cursor.room(row)) for row in range(batch)]
        lengths = [data.draw(st.integers(0, room)) for room in rooms]
        for name, (output, expected) in run.step(lengths, width).items():
            assert_near(output, expected, name)
            assert_padding_is_zero(output, lengths, name)
        assert_equal_caches(operators)
        for row in [data.draw(st.integers(0, heads.rows - 1)) for _ in range(data.draw(st.integers(0, 2)))]:
            run.rollback(row, data.draw(st.integers(0, run.cursor.max_rollback(row))))
        for name, (output, expected) in run.look_back(None if is_full else reach).items():
            assert_near(output, expected, f"{name}, shared")
        assert_equal_caches(operators)


@pytest.mark.parametrize("name", INSTALLED)
@pytest.mark.parametrize(("reach", "max_step"), [(4, 3), (8, 5), (2, 2), (9, 1)])
def test_a_ring_of_one_slot_fewer_reads_wrong_and_the_right_one_does_not(name, reach, max_step) -> None:
    heads, options = Heads(1, 2, 2, 8, 8), Options(0.35)
    differences = []
    for kind in (CacheGeometry, OneSlotShort):
        geometry = kind("sliding", reach, max_step)
        operators = spellings(geometry, heads, stale=STALE, names=(name,))
        run = Run(heads, geometry, options, operators, seeded(3))
        pairs = [run.step([max_step], max_step)[name] for _ in range(3 * reach // max_step + 2)]
        differences.append(max(float((output - expected).abs().max()) for output, expected in pairs))
    assert differences[0] < 1e-5
    assert differences[1] > 0.05


@with_stale
@settings(max_examples=40, deadline=None)
@given(st.data(), head_sizes(), st.integers(1, 12))
def test_cross_writes_and_reads_see_each_rows_own_length(names, stale, data, heads, max_enc) -> None:
    """Two requests of any batch and lengths, the second over what the first one left."""
    operators = spellings(CrossGeometry(max_enc), heads, stale=stale, names=names)
    options = data.draw(score_options(heads, bias=False))
    generator = seeded(data.draw(st.integers(0, 999)))
    for _ in range(2):
        batch, width = data.draw(st.integers(1, heads.rows)), data.draw(st.integers(1, max_enc))
        counts = [data.draw(st.integers(0, width)) for _ in range(batch)]
        lengths = torch.tensor(counts)
        _, key, value = heads.step(batch, width, generator)
        query, _, _ = heads.step(batch, data.draw(st.integers(1, 5)), generator)
        expected = torch.zeros(batch, query.shape[2], query.shape[1], heads.value_dim)
        for row, count in enumerate(counts):
            seen = (key[row, :, :count], value[row, :, :count], torch.zeros(count, dtype=torch.int64))
            for token in range(query.shape[2]):
                expected[row, token] = plain_attention(query[row, :, token], *seen, options)
        for name, operator in operators.items():
            assert torch.equal(operator.write_cross(key, value, lengths), lengths), name
            output = operator.cross_attention(query, lengths, options)
            assert_near(output, expected, name)
            assert_padding_is_zero(output, [query.shape[2] if count else 0 for count in counts], name)
        assert_equal_caches(operators)


@with_stale
@settings(max_examples=40, deadline=None)
@given(st.data(), head_sizes(), st.integers(1, 11))
def test_encoder_attention_sees_each_rows_own_length_in_both_directions(
    names, stale, data, heads, width
) -> None:
    operators = spellings(CrossGeometry(1), heads, stale=0.0, names=names)
    options = data.draw(score_options(heads))
    counts = [data.draw(st.integers(0, width)) for _ in range(heads.rows)]
    query, key, value = heads.step(heads.rows, width, seeded(data.draw(st.integers(0, 999))))
    expected = torch.zeros(heads.rows, width, query.shape[1], heads.value_dim)
    for row, count in enumerate(counts):
        for tensor in (query, key, value):
            tensor[row, :, count:] = stale
        for token in range(count):
            distances = token - torch.arange(count)
            seen = (key[row, :, :count], value[row, :, :count], distances)
            expected[row, token] = plain_attention(query[row, :, token], *seen, options)
    for name, operator in operators.items():
        output = operator.encoder_attention((query, key, value), torch.tensor(counts), options)
        assert_near(output, expected, name)
        assert_padding_is_zero(output, counts, name)


@pytest.mark.parametrize("name", INSTALLED)
def test_queries_that_see_nothing_yield_zero_and_never_nan(name) -> None:
    """An idle row of a batch, an encoder length of 0, and a cache that nothing was written to."""
    heads, nothing = Heads(2, 2, 2, 8, 4), torch.tensor([0, 0])
    stale = STALE if name in FINITE else math.nan
    states = heads.step(2, 3, seeded(0))
    ring = spellings(CacheGeometry("sliding", 4, 3), heads, stale=stale, names=(name,))[name]
    cross = spellings(CrossGeometry(5), heads, stale=stale, names=(name,))[name]
    options = Options(0.5, 3.0, torch.randn(4, 5, generator=seeded(1)), 2)
    outputs = (
        ring.self_attention(states, torch.tensor([0, 9]), nothing, options),
        cross.cross_attention(states[0], nothing, options),
        cross.encoder_attention(states, nothing, options),
    )
    for output in outputs:
        assert torch.equal(output, torch.zeros(2, 3, 4, 4))


@pytest.mark.skipif(operator_library_path() is None, reason="the C++ operator library is not installed")
def test_the_kernel_was_among_the_spellings() -> None:
    assert "kernel" in spellings(CrossGeometry(1), Heads(1, 1, 1, 4, 4), stale=0.0)
