"""The Python side of the operator library: absence, refusals, and equality with the eager operators."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from exporter.cache import cached_attention as eager
from runtime_shims import native
from runtime_shims.contract.errors import UnsupportedSetting

TOLERANCE = 1e-5  # fp32, other summation orders

needs_library = pytest.mark.skipif(
    native.operator_library_path() is None, reason="the C++ operator library is not installed"
)


@pytest.fixture
def not_installed(monkeypatch):
    monkeypatch.setattr(native, "_FILE", Path("_native/libnothing.so"))
    native.load_operator_library.cache_clear()
    yield
    native.load_operator_library.cache_clear()


def test_a_missing_library_is_no_path(not_installed):
    assert native.operator_library_path() is None


def test_loading_a_missing_library_names_both_ways_out(not_installed):
    with pytest.raises(UnsupportedSetting, match=r"C\+\+20 compiler.*--attention portable"):
        native.load_operator_library()


def test_a_library_that_does_not_load_is_named(tmp_path, monkeypatch):
    broken = tmp_path / "libbroken.so"
    broken.write_bytes(b"not a library")
    monkeypatch.setattr(native, "operator_library_path", lambda: broken)
    native.load_operator_library.cache_clear()
    with pytest.raises(UnsupportedSetting, match=r"libbroken\.so does not load"):
        native.load_operator_library()
    native.load_operator_library.cache_clear()


def step(rows: int = 2, tokens: int = 5, heads: int = 4, kv_heads: int = 2, slots: int = 20) -> list[Tensor]:
    """query, key, value, key_cache, value_cache, positions, step_lengths; row 0 has long wrapped."""
    torch.manual_seed(0)
    return [
        torch.randn(rows, heads, tokens, 16), torch.randn(rows, kv_heads, tokens, 16),
        torch.randn(rows, kv_heads, tokens, 12), torch.randn(rows + 1, kv_heads, slots, 16),
        torch.randn(rows + 1, kv_heads, slots, 12), torch.tensor([30, 3])[:rows],
        torch.tensor([tokens, tokens - 2])[:rows],
    ]


@needs_library
@pytest.mark.parametrize("window", [None, 7])
@pytest.mark.parametrize("softcap", [None, 20.0])
@pytest.mark.parametrize("biased", [False, True])
def test_cached_attention_equals_the_eager_operator(window, softcap, biased):
    tensors, twins = step(), step()
    table = torch.randn(4, 9) if biased else None
    got = native.cached_attention(*tensors, table, 2, window, 0.3, softcap)
    want = eager.cached_attention(*twins, table, 2, window, 0.3, softcap)
    torch.testing.assert_close(got, want, atol=TOLERANCE, rtol=TOLERANCE)
    for written, expected in zip(tensors, twins, strict=True):
        assert torch.equal(written, expected)


@needs_library
def test_encoder_and_cross_operators_equal_the_eager_ones():
    torch.manual_seed(1)
    query, key, value = torch.randn(2, 4, 9, 16), torch.randn(2, 2, 9, 16), torch.randn(2, 2, 9, 16)
    lengths, table = torch.tensor([9, 4]), torch.randn(4, 7)
    got = native.encoder_attention(query, key, value, lengths, table, 3, 0.2, None)
    want = eager.encoder_attention(query, key, value, lengths, table, 3, 0.2, None)
    torch.testing.assert_close(got, want, atol=TOLERANCE, rtol=TOLERANCE)
    caches = torch.zeros(3, 2, 12, 16), torch.zeros(3, 2, 12, 16)
    twins = torch.zeros(3, 2, 12, 16), torch.zeros(3, 2, 12, 16)
    assert torch.equal(native.write_cross(key, value, *caches, lengths), lengths)
    eager.write_cross(key, value, *twins, lengths)
    assert torch.equal(caches[0], twins[0])
    assert torch.equal(caches[1], twins[1])
    got = native.cross_attention(query, *caches, lengths, 0.2, 30.0)
    want = eager.cross_attention(query, *twins, lengths, 0.2, 30.0)
    torch.testing.assert_close(got, want, atol=TOLERANCE, rtol=TOLERANCE)


@needs_library
def test_a_refusal_is_a_value_error_and_writes_nothing():
    tensors = step()
    before = [tensor.clone() for tensor in tensors]
    tensors[6][1] = 6  # of 5 tokens
    before[6][1] = 6
    with pytest.raises(ValueError, match="cached_attention: a length is negative or larger"):
        native.cached_attention(*tensors, None, 0, None, 1.0, None)
    assert all(torch.equal(now, then) for now, then in zip(tensors, before, strict=True))


@needs_library
def test_tensors_of_another_type_or_layout_are_refused():
    tensors = step()
    with pytest.raises(ValueError, match="contiguous float32"):
        native.cached_attention(tensors[0].double(), *tensors[1:], None, 0, None, 1.0, None)
    with pytest.raises(ValueError, match="contiguous float32"):
        native.cached_attention(tensors[0].transpose(1, 2), *tensors[1:], None, 0, None, 1.0, None)
    with pytest.raises(ValueError, match="contiguous int64"):
        native.cached_attention(*tensors[:6], tensors[6].int(), None, 0, None, 1.0, None)


@needs_library
def test_the_operators_are_registered_once_with_the_runtime_of_this_process():
    from executorch.extension.pybindings.portable_lib import _get_operator_names

    native.load_operator_library()
    native.load_operator_library.cache_clear()
    native.load_operator_library()
    registered = [name for name in _get_operator_names() if name.startswith("fixed_capacity::")]
    assert len(registered) == len(set(registered))
    attention = [f"{kind}_attention" for kind in ("cached", "shared", "cross", "merged", "encoder")]
    names = (*attention, "write_cross", "dense", "embed", "quantize_rows")
    expected = {f"fixed_capacity::{name}.out" for name in names}
    assert expected <= set(registered)


@needs_library
def test_the_kernel_variant_and_the_weight_sharing_switch_answer():
    x86 = ("x86-64-v4+vnni", "x86-64-v4", "x86-64-v3+vnni", "x86-64-v3")
    assert native.kernel_variant() in (*x86, "arm+dotprod", "baseline")
    native.share_packed_weights()
