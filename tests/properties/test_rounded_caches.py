"""Caches in half precision and in 8 bits: the kernel equals the eager reference, and both equal plain lists of
rounded values.

Shape legend: see `tests/support/operator_spellings.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from exporter.cache.stored_states import as_floats, as_stored
from runtime_shims.contract.cache_geometry import CacheGeometry, CrossGeometry
from runtime_shims.native import operator_library_path
from tests.properties.test_operator_spellings import (
    MAX_CONTEXT,
    Run,
    assert_equal_caches,
    assert_padding_is_zero,
    head_sizes,
    score_options,
    seeded,
)
from tests.support.operator_spellings import Heads, Options, assert_near, spellings

NAMES = ("eager",) if operator_library_path() is None else ("eager", "kernel")
HALF = torch.float16
STALE = [(HALF, 7.5), (HALF, math.nan), (HALF, math.inf), (torch.int8, 7), (torch.int8, -1)]
"""What slots hold before anything is written; four bytes of -1 are a scale of NaN."""
LARGEST = torch.finfo(HALF).max
SPECIAL = (1e-8, 6e-8, 3e-5, -1e-4, 65503.0, 65520.0, 1e30, -1e30, math.inf, -math.inf, 0.0)


@dataclass(frozen=True)
class RoundedHeads(Heads):
    """Steps whose keys and values a cache of `dtype` holds, so that caches round nothing more."""

    dtype: torch.dtype = HALF

    def step(self, batch: int, tokens: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        query, key, value = super().step(batch, tokens, generator)
        return query, as_floats(as_stored(key, self.dtype)), as_floats(as_stored(value, self.dtype))


@pytest.mark.parametrize(("dtype", "stale"), STALE)
@settings(max_examples=30, deadline=None)
@given(st.data(), head_sizes(), st.booleans(), st.integers(1, 9), st.integers(1, 6))
def test_steps_and_chained_rollbacks_equal_plain_lists(dtype, stale, data, sizes, is_full, reach, max_step) -> None:
    """Rings wrap many times; what was never written, or was written and taken back, is never seen."""
    heads = RoundedHeads(**vars(sizes), dtype=dtype)
    options = data.draw(score_options(heads))
    geometry = CacheGeometry("full", MAX_CONTEXT, max_step) if is_full else CacheGeometry("sliding", reach, max_step)
    operators = spellings(geometry, heads, stale=stale, names=NAMES, dtype=dtype)
    run = Run(heads, geometry, options, operators, seeded(data.draw(st.integers(0, 999))))
    for _ in range(data.draw(st.integers(1, 9))):
        batch, width = data.draw(st.integers(1, heads.rows)), data.draw(st.integers(1, max_step))
        lengths = [data.draw(st.integers(0, min(width, run.cursor.room(row)))) for row in range(batch)]
        for name, (output, expected) in run.step(lengths, width).items():
            assert_near(output, expected, name)
            assert_padding_is_zero(output, lengths, name)
        assert_equal_caches(operators)
        row = data.draw(st.integers(0, heads.rows - 1))
        run.rollback(row, data.draw(st.integers(0, run.cursor.max_rollback(row))))


@pytest.mark.parametrize(("dtype", "stale"), [(HALF, math.nan), (torch.int8, -1)])
@settings(max_examples=30, deadline=None)
@given(st.data(), head_sizes(), st.integers(1, 12))
def test_cross_caches_of_the_kernel_equal_the_reference(dtype, stale, data, heads, max_enc) -> None:
    operators = spellings(CrossGeometry(max_enc), heads, stale=stale, names=NAMES, dtype=dtype)
    lengths = torch.tensor([data.draw(st.integers(0, max_enc)) for _ in range(heads.rows)])
    query, _, _ = heads.step(heads.rows, 3, seeded(1))
    _, key, value = heads.step(heads.rows, max_enc, seeded(2))
    outputs = []
    for operator in operators.values():
        operator.write_cross(key, value, lengths)
        outputs.append(operator.cross_attention(query, lengths, Options(0.3)))
    assert_equal_caches(operators)
    for output in outputs[1:]:
        assert_near(output, outputs[0], "kernel")


@pytest.mark.parametrize("name", NAMES)
def test_what_half_cannot_hold_is_stored_as_the_nearest_it_can(name: str) -> None:
    """Rounded to even at the last bit, saturated at the largest finite value; NaN stays NaN."""
    heads = Heads(1, 1, 1, 32, 32)
    operator = spellings(CacheGeometry("full", 4, 1), heads, stale=0.0, names=(name,), dtype=HALF)[name]
    written = torch.randn(32, generator=seeded(5)) * 100
    written[: len(SPECIAL)] = torch.tensor(SPECIAL)
    written[len(SPECIAL)] = math.nan
    step = written.view(1, 1, 1, 32)
    operator.self_attention((step, step, step), torch.tensor([0]), torch.tensor([1]), Options(1.0))
    stored = operator.caches()[0][0, 0, 0]
    assert bool(stored[len(SPECIAL)].isnan())
    torch.testing.assert_close(stored, written.clamp(-LARGEST, LARGEST).half(), rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(stored, as_stored(written, HALF), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf])
def test_what_8_bits_cannot_hold_makes_its_position_nan(name: str, broken: float) -> None:
    """The rest of a position is held to half a step; zeros, and values too small for a scale, are zeros."""
    heads = Heads(1, 1, 1, 16, 16)
    operator = spellings(CacheGeometry("full", 4, 4), heads, stale=0, names=(name,), dtype=torch.int8)[name]
    written = torch.randn(4, 16, generator=seeded(6)) * 100
    written[1], written[2], written[3, 5] = 0.0, 1e-40, broken
    step = written.view(1, 1, 4, 16)
    operator.self_attention((step, step, step), torch.tensor([0]), torch.tensor([4]), Options(1.0))
    stored = operator.caches()[0][0, 0, :4]
    assert torch.equal(stored, as_stored(written, torch.int8))
    held = as_floats(stored)
    assert float((held[0] - written[0]).abs().max()) <= float(written[0].abs().max()) / 254 * (1 + 1e-6)
    assert torch.equal(held[1:3], torch.zeros(2, 16))
    assert bool(held[3].isnan().all())


@pytest.mark.skipif(operator_library_path() is None, reason="the C++ operator library is not installed")
def test_caches_of_two_types_are_refused_and_not_written() -> None:
    from runtime_shims import native

    query = torch.ones(1, 2, 1, 8)
    caches = torch.zeros(1, 2, 4, 8), torch.zeros(1, 2, 4, 8, dtype=HALF)
    with pytest.raises(ValueError, match="must be of one type"):
        native.cached_attention(
            query, query, query, *caches, torch.tensor([0]), torch.tensor([1]), None, 0, None, 1.0, None
        )
    assert not any(bool(cache.any()) for cache in caches)
    with pytest.raises(ValueError, match="contiguous float32 or float16 or int8"):
        native.write_cross(query, query, caches[0].double(), caches[0], torch.tensor([1]))
