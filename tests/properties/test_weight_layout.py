"""Stored weights: any shape, format and group goes into its layout and comes back, in Python and in the C++ kernels.

Shape legend: N output features, C inputs, G groups of inputs that share a scale, R rows.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from exporter.weights.layout import TERMS, WeightLayout, pack_floats, pack_integers, unpack_floats, unpack_integers
from exporter.weights.operators import dense, dequantized, embed, quantize_rows
from runtime_shims import native, native_linear

needs_library = pytest.mark.skipif(
    native.operator_library_path() is None, reason="the C++ operator library is not installed"
)


@pytest.fixture(scope="module", autouse=True)
def one_torch_thread() -> Iterator[None]:
    """Tiny tensors gain nothing from a second thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


LAYOUTS = st.builds(
    lambda features, width, kind: WeightLayout(features, width, *kind),
    st.integers(1, 100),
    st.integers(1, 200),
    st.sampled_from([(32, 0), (16, 0), *((bits, group) for bits in (8, 4) for group in (32, 64, 96, 256))]),
)
SEEDS = st.integers(0, 2**32 - 1)


def integers(layout: WeightLayout, seed: int) -> tuple[Tensor, Tensor]:
    """Random int8 values [N, C] over the whole range of the format, and bfloat16 scales [N, G, X] of both signs."""
    generator = torch.Generator().manual_seed(seed)
    low, high = (0, 16) if layout.bits == 4 else (-128, 128)
    values = torch.randint(low, high, (layout.features, layout.width), generator=generator, dtype=torch.int8)
    return values, torch.randn(layout.features, layout.groups, TERMS[layout.bits], generator=generator).bfloat16()


def floats(layout: WeightLayout, seed: int) -> Tensor:
    """Random weights [N, C] that the format holds exactly."""
    drawn = torch.randn(layout.features, layout.width, generator=torch.Generator().manual_seed(seed))
    return drawn.half().float() if layout.bits == 16 else drawn


def stored(layout: WeightLayout, seed: int) -> tuple[Tensor, Tensor]:
    """A random matrix as it is stored, and as float32 [N, C]."""
    if not layout.is_integer:
        weight_NC = floats(layout, seed)
        return pack_floats(weight_NC, layout.bits), weight_NC
    values, scales = integers(layout, seed)
    return pack_integers(values, scales, layout), dequantized(values, scales, layout.group)


def format_of(layout: WeightLayout) -> native_linear.Format:
    return native_linear.Format(layout.width, layout.features, layout.bits, layout.group)


@settings(deadline=None)
@given(layout=LAYOUTS, seed=SEEDS)
def test_what_is_packed_is_unpacked_and_takes_the_bytes_that_the_layout_says(layout: WeightLayout, seed: int) -> None:
    if layout.is_integer:
        values, scales = integers(layout, seed)
        packed = pack_integers(values, scales, layout)
        found_values, found_scales = unpack_integers(packed, layout)
        assert torch.equal(found_values, values)
        assert torch.equal(found_scales, scales)
    else:
        weight_NC = floats(layout, seed)
        packed = pack_floats(weight_NC, layout.bits)
        assert torch.equal(unpack_floats(packed, layout), weight_NC)
    assert packed.is_contiguous()
    assert packed.nbytes == layout.size_bytes


@settings(deadline=None)
@given(layout=LAYOUTS, seed=SEEDS)
def test_one_changed_value_changes_the_stored_bytes(layout: WeightLayout, seed: int) -> None:
    packed, _ = stored(layout, seed)
    if layout.is_integer:
        values, scales = integers(layout, seed)
        values[-1, -1] ^= 1
        assert (pack_integers(values, scales, layout) != packed).sum() == 1
    else:
        weight_NC = floats(layout, seed)
        weight_NC[-1, -1] += 1.0
        assert (pack_floats(weight_NC, layout.bits) != packed).sum() == 1


@needs_library
@settings(deadline=None)
@given(layout=LAYOUTS, seed=SEEDS)
def test_the_kernel_embeds_every_feature_as_it_was_stored(layout: WeightLayout, seed: int) -> None:
    packed, weight_NC = stored(layout, seed)
    order = torch.randperm(layout.features, generator=torch.Generator().manual_seed(seed))
    assert torch.equal(native_linear.embed(order, packed, format_of(layout)), weight_NC[order])
    arguments = (layout.width, layout.features, layout.bits, layout.group)
    assert torch.equal(embed(order, packed, *arguments), weight_NC[order])


@needs_library
@settings(deadline=None)
@given(layout=LAYOUTS, seed=SEEDS, rows=st.integers(1, 20), biased=st.booleans())
def test_the_kernel_multiplies_as_the_eager_operator(
    layout: WeightLayout, seed: int, rows: int, biased: bool
) -> None:
    packed, weight_NC = stored(layout, seed)
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(rows, layout.width, generator=generator)
    magnitude = inputs.abs() @ weight_NC.abs().T + 1.0  # sums in another order differ relative to this
    bias = torch.randn(layout.features, generator=generator) if biased else None
    if layout.is_integer:
        inputs = quantize_rows(inputs, layout.group)
    got = native_linear.linear(inputs, packed, bias, format_of(layout))
    want = dense(inputs, packed, bias, layout.width, layout.features, layout.bits, layout.group)
    assert ((got - want).abs() <= 3e-6 * magnitude).all()


@needs_library
@settings(deadline=None)
@given(
    seed=SEEDS,
    rows=st.integers(1, 40),
    width=st.integers(1, 400),
    group=st.sampled_from([32, 64, 96, 256]),
    magnitude=st.sampled_from([1e-41, 1e-37, 1e-20, 1.0, 3e4, 1e38]),
)
@example(seed=458826, rows=18, width=212, group=32, magnitude=1.0)  # where a fused multiplication rounds otherwise
def test_the_kernel_quantizes_rows_bit_for_bit(seed: int, rows: int, width: int, group: int, magnitude: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    inputs = (2.0 * torch.rand(rows, width, generator=generator) - 1.0) * magnitude
    inputs[torch.rand(rows, width, generator=generator) < 0.2] = 0.0
    assert torch.equal(native_linear.quantize_rows(inputs, group), quantize_rows(inputs, group))


@needs_library
@settings(deadline=None)
@given(layout=LAYOUTS, seed=SEEDS)
def test_the_kernel_refuses_a_matrix_of_another_size(layout: WeightLayout, seed: int) -> None:
    packed, _ = stored(layout, seed)
    short = packed.reshape(-1)[:-1].clone()
    with pytest.raises(ValueError, match="not of the size their format gives"):
        native_linear.embed(torch.tensor([0]), short, format_of(layout))
