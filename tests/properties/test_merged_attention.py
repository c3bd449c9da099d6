"""Merged attention, the step's ring and an encoder's keys under one softmax: every spelling equals plain lists.

Shape legend: see `tests/support/operator_spellings.py`.
"""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from exporter.cache.stored_states import as_floats, as_stored
from runtime_shims import native
from runtime_shims.contract.cache_geometry import CacheGeometry, CrossGeometry
from runtime_shims.native import operator_library_path
from tests.properties.test_operator_spellings import (
    INSTALLED,
    MAX_CONTEXT,
    NAN_SAFE,
    STALE,
    Run,
    assert_equal_caches,
    assert_padding_is_zero,
    head_sizes,
    score_options,
    seeded,
)
from tests.support.operator_spellings import Heads, Operator, Options, assert_near, plain_attention, spellings

FLOAT, HALF, BYTES = torch.float32, torch.float16, torch.int8


class MergedRun(Run):
    """A run whose every query also sees the source of its row."""

    def take_source(self, cross: dict[str, Operator], counts: list[int], width: int) -> None:
        """Write a request's encoder keys, `counts` of them live, and remember them."""
        _, key, value = self.heads.step(self.heads.rows, width, self.generator)
        self.cross, self.counts = cross, counts
        dtype = cross["eager"].caches()[0].dtype
        self.source = tuple(as_floats(as_stored(states, dtype)) for states in (key, value))
        for operator in cross.values():
            operator.write_cross(key, value, torch.tensor(counts))

    def merged_step(self, lengths: list[int], width: int) -> dict[str, tuple[Tensor, Tensor]]:
        """Run one step on every spelling; `(output, expected)` `[b, T, H, Dv]` of each."""
        batch = len(lengths)
        states = self.heads.step(batch, width, self.generator)
        dtype = self.operators["eager"].caches()[0].dtype
        held = [as_floats(as_stored(tensor, dtype)) for tensor in states[1:]]
        starts = [self.cursor.length(row) for row in range(batch)]
        expected = torch.zeros(batch, width, self.heads.kv_heads * self.heads.groups, self.heads.value_dim)
        for row, count in enumerate(lengths):
            self.cursor.advance(row, count)
            self.rows[row].write(held[0][row], held[1][row], count)
            for token in range(count):
                expected[row, token] = self._sees(states[0][row, :, token], row, starts[row] + token)
        indices = tuple(torch.tensor(values) for values in (starts, lengths, self.counts[:batch]))
        return {
            name: (made.merged_attention(self.cross[name], states, indices, self.options), expected)
            for name, made in self.operators.items()
        }

    def _sees(self, query_HD: Tensor, row: int, position: int) -> Tensor:
        first = 0 if self.geometry.kind == "full" else max(0, position - self.geometry.reach + 1)
        past, seen = self.rows[row], slice(first, position + 1)
        keys, values = (
            torch.cat((torch.stack(own[seen], 1), source[row, :, : self.counts[row]]), dim=1)
            for own, source in zip((past.keys, past.values), self.source, strict=True)
        )
        return plain_attention(query_HD, keys, values, torch.zeros(keys.shape[1], dtype=torch.int64), self.options)


CACHES = [
    pytest.param(INSTALLED, FLOAT, STALE, id="float"),
    pytest.param(NAN_SAFE, FLOAT, math.nan, id="NaN"),
    pytest.param(NAN_SAFE, HALF, math.nan, id="half"),
    pytest.param(NAN_SAFE, BYTES, -1, id="bytes"),
]


@pytest.mark.parametrize(("names", "dtype", "stale"), CACHES)
@settings(max_examples=30, deadline=None)
@given(st.data(), head_sizes(), st.booleans(), st.integers(1, 9), st.integers(1, 6), st.integers(1, 8))
def test_steps_and_chained_rollbacks_beside_a_source_equal_plain_lists(
    names, dtype, stale, data, heads, is_full, reach, max_step, max_enc
) -> None:
    """Rows have sources of any length, none included; what was rejected or never written is never seen."""
    options = data.draw(score_options(heads, bias=False))
    geometry = CacheGeometry("full", MAX_CONTEXT, max_step) if is_full else CacheGeometry("sliding", reach, max_step)
    operators = spellings(geometry, heads, stale=stale, names=names, dtype=dtype)
    cross = spellings(CrossGeometry(max_enc), heads, stale=stale, names=names, dtype=dtype)
    run = MergedRun(heads, geometry, options, operators, seeded(data.draw(st.integers(0, 999))))
    width = data.draw(st.integers(1, max_enc))
    run.take_source(cross, [data.draw(st.integers(0, width)) for _ in range(heads.rows)], width)
    for _ in range(data.draw(st.integers(1, 6))):
        batch, tokens = data.draw(st.integers(1, heads.rows)), data.draw(st.integers(1, max_step))
        lengths = [data.draw(st.integers(0, min(tokens, run.cursor.room(row)))) for row in range(batch)]
        for name, (output, expected) in run.merged_step(lengths, tokens).items():
            assert_near(output, expected, name)
            assert_padding_is_zero(output, lengths, name)
        assert_equal_caches(operators)
        assert_equal_caches(cross)
        row = data.draw(st.integers(0, heads.rows - 1))
        run.rollback(row, data.draw(st.integers(0, run.cursor.max_rollback(row))))


@pytest.mark.parametrize("name", INSTALLED)
def test_one_softmax_is_not_the_sum_of_two_attentions(name: str) -> None:
    """The control: what self- and cross-attention give one after the other would not pass for it."""
    heads, options, one = Heads(1, 2, 2, 8, 8), Options(0.35), torch.tensor([1])
    ring = spellings(CacheGeometry("full", 4, 1), heads, stale=0.0, names=(name,))[name]
    cross = spellings(CrossGeometry(3), heads, stale=0.0, names=(name,))[name]
    states, (_, key, value) = heads.step(1, 1, seeded(1)), heads.step(1, 3, seeded(2))
    cross.write_cross(key, value, torch.tensor([3]))
    merged = ring.merged_attention(cross, states, (one - 1, one, 3 * one), options)
    apart = (ring.self_attention(states, one - 1, one, options), cross.cross_attention(states[0], 3 * one, options))
    assert float((merged - (apart[0] + apart[1])).abs().max()) > 0.05
    assert float((merged - (apart[0] + apart[1]) / 2).abs().max()) > 0.05


@pytest.mark.skipif(operator_library_path() is None, reason="the C++ operator library is not installed")
def test_a_source_longer_than_its_cache_is_refused_and_nothing_is_written() -> None:
    states, one = torch.ones(1, 2, 1, 8), torch.tensor([1])
    caches = [torch.zeros(1, 2, slots, 8) for slots in (4, 4, 3, 3)]
    with pytest.raises(ValueError, match="merged_attention: a length is negative or larger"):
        native.merged_attention(states, states, states, *caches, one, one, torch.tensor([4]), None, 1.0, None)
    assert not any(bool(cache.any()) for cache in caches)
