"""The spellings of the cache operator behind one interface, and the plain arithmetic they must equal.

Shape legend: B cache rows, b live rows, T step tokens, S slots, E encoder positions, H query heads,
K key/value heads, D key size, Dv value size, N entries of a bias table, P positions of one row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import ModuleType
from typing import Protocol

import torch
from torch import Tensor

from exporter.bundle.tolerances import TOLERANCES
from exporter.cache import cached_attention as eager
from exporter.cache.attention_binding import Attend, BiasTable, Spelling, StepContext
from exporter.cache.cache_layer import CacheLayer
from exporter.cache.onnx_form import OnnxSpelling
from exporter.cache.spellings import CoreSpelling
from exporter.models.relative_bias import BiasHolder
from runtime_shims import native
from runtime_shims.contract.cache_geometry import CacheGeometry, CrossGeometry

Geometry = CacheGeometry | CrossGeometry


@dataclass(frozen=True)
class Heads:
    """Sizes that do not change between calls. Query heads are `kv_heads * groups`."""

    rows: int
    kv_heads: int
    groups: int
    key_dim: int
    value_dim: int

    def step(self, batch: int, tokens: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Random query `[b, H, T, D]`, key `[b, K, T, D]` and value `[b, K, T, Dv]`."""
        sizes = ((self.kv_heads * self.groups, self.key_dim), (self.kv_heads, self.key_dim))
        sizes = (*sizes, (self.kv_heads, self.value_dim))
        query, key, value = (
            torch.randn(batch, heads, tokens, dim, generator=generator) for heads, dim in sizes
        )
        return query, key, value


@dataclass(frozen=True)
class Options:
    """How scores become weights: scale, soft cap, a relative bias table `[H, N]` with its origin, sinks `[H]`."""

    scale: float
    softcap: float | None = None
    bias_table: Tensor | None = None
    bias_origin: int = 0
    sinks: Tensor | None = None

    @property
    def bias(self) -> tuple[Tensor | None, int]:
        return self.bias_table, self.bias_origin


class Operator(Protocol):
    """One spelling over caches of its own."""

    def self_attention(
        self, states: tuple[Tensor, Tensor, Tensor], positions: Tensor, lengths: Tensor, options: Options
    ) -> Tensor: ...
    def shared_attention(
        self, query: Tensor, positions: Tensor, lengths: Tensor, options: Options
    ) -> Tensor: ...
    def cross_attention(self, query: Tensor, lengths: Tensor, options: Options) -> Tensor: ...
    def merged_attention(
        self, cross: Operator, states: tuple[Tensor, Tensor, Tensor], indices: tuple[Tensor, ...], options: Options
    ) -> Tensor: ...
    def encoder_attention(
        self, states: tuple[Tensor, Tensor, Tensor], lengths: Tensor, options: Options
    ) -> Tensor: ...
    def write_cross(self, key: Tensor, value: Tensor, lengths: Tensor) -> Tensor: ...
    def caches(self) -> tuple[Tensor, Tensor]: ...


class FunctionOperator:
    """The eager reference or the C++ kernels: modules with the same functions."""

    def __init__(
        self, functions: ModuleType, geometry: Geometry, heads: Heads, stale: float, dtype: torch.dtype
    ) -> None:
        self.functions = functions
        layer = CacheLayer(geometry, (heads.rows, heads.kv_heads, heads.key_dim, heads.value_dim), dtype=dtype)
        self.window = layer.window
        self.key_cache, self.value_cache = layer.key_cache.fill_(stale), layer.value_cache.fill_(stale)

    def self_attention(self, states, positions, lengths, options):
        caches = (self.key_cache, self.value_cache)
        return self.functions.cached_attention(
            *states,
            *caches,
            positions,
            lengths,
            *options.bias,
            self.window,
            options.scale,
            options.softcap,
            options.sinks,
        )

    def shared_attention(self, query, positions, lengths, options):
        caches = (self.key_cache, self.value_cache)
        return self.functions.shared_attention(
            query, *caches, positions, lengths, *options.bias, self.window, options.scale, options.softcap
        )

    def cross_attention(self, query, lengths, options):
        caches = (self.key_cache, self.value_cache)
        return self.functions.cross_attention(query, *caches, lengths, options.scale, options.softcap)

    def merged_attention(self, cross, states, indices, options):
        caches = (self.key_cache, self.value_cache, *cross.caches())
        return self.functions.merged_attention(
            *states, *caches, *indices, self.window, options.scale, options.softcap
        )

    def encoder_attention(self, states, lengths, options):
        return self.functions.encoder_attention(
            *states, lengths, *options.bias, options.scale, options.softcap
        )

    def write_cross(self, key, value, lengths):
        return self.functions.write_cross(key, value, self.key_cache, self.value_cache, lengths)

    def caches(self):
        return self.key_cache, self.value_cache


class SpelledOperator:
    """A form of several operators, as it is traced: in core operators over flat caches, or in ONNX's."""

    def __init__(self, spelling: Spelling, geometry: Geometry, heads: Heads, stale: float) -> None:
        shape = (heads.rows, heads.kv_heads, heads.key_dim, heads.value_dim)
        self.layer = CacheLayer(geometry, shape, flat=spelling.flat_caches)
        self.layer.key_cache.fill_(stale)
        self.layer.value_cache.fill_(stale)
        self.spelling, self.step = spelling, StepContext()

    def self_attention(self, states, positions, lengths, options):
        self.step.begin(positions=positions, step_lengths=lengths)
        return self.spelling.self_attention(self._call(options), *states)

    def shared_attention(self, query, positions, lengths, options):
        self.step.begin(positions=positions, step_lengths=lengths)
        return self.spelling.shared_attention(self._call(options), query)

    def cross_attention(self, query, lengths, options):
        self.step.begin(enc_lengths=lengths, step_lengths=torch.full_like(lengths, query.shape[2]))
        return self.spelling.cross_attention(self._call(options), query)

    def merged_attention(self, cross, states, indices, options):
        positions, lengths, sources = indices
        self.step.begin(positions=positions, step_lengths=lengths, enc_lengths=sources)
        return self.spelling.merged_attention(replace(self._call(options), cross=cross.layer), *states)

    def encoder_attention(self, states, lengths, options):
        self.step.begin(enc_lengths=lengths)
        return self.spelling.encoder_attention(self._call(options), *states)

    def write_cross(self, key, value, lengths):
        self.step.begin(enc_lengths=lengths, encoding=True)
        return self.spelling.write_cross(self._call(Options(1.0)), key, value)

    def caches(self):
        return self.layer.views_BKSD()

    def _call(self, options: Options) -> Attend:
        bias = None
        if options.bias_table is not None:
            bias = BiasTable(BiasHolder(options.bias_table), options.bias_origin)
        return Attend(self.step, self.layer, bias, options.scale, options.softcap, options.sinks)


def spellings(
    geometry: Geometry,
    heads: Heads,
    *,
    stale: float,
    names: tuple[str, ...] = ("eager", "kernel", "core", "onnx"),
    dtype: torch.dtype = torch.float32,
) -> dict[str, Operator]:
    """The named spellings, every cache slot filled with `stale`; the kernel only where it is installed.

    `dtype` is the caches'; the forms of several operators have float32 only.
    """
    made: dict[str, Operator] = {}
    for name in names:
        if name in ("core", "onnx"):
            spelling = CoreSpelling() if name == "core" else OnnxSpelling()
            made[name] = SpelledOperator(spelling, geometry, heads, stale)
        elif name == "eager" or native.operator_library_path() is not None:
            functions = eager if name == "eager" else native
            made[name] = FunctionOperator(functions, geometry, heads, stale, dtype)
    return made


def plain_attention(
    query_HD: Tensor, keys_KPD: Tensor, values_KPD: Tensor, distances_P: Tensor, options: Options
) -> Tensor:
    """What one query sees over the keys it may see, in float64 and plain order: `[H, Dv]`, 0 without keys."""
    heads, kv_heads = query_HD.shape[0], keys_KPD.shape[0]
    out = torch.zeros(heads, values_KPD.shape[2], dtype=torch.float64)
    if keys_KPD.shape[1] == 0:
        return out.float()
    for head in range(heads):
        group = head // (heads // kv_heads)
        scores_P = keys_KPD[group].double() @ query_HD[head].double() * options.scale
        if options.softcap is not None:
            scores_P = options.softcap * torch.tanh(scores_P / options.softcap)
        if options.bias_table is not None:
            index_P = (distances_P + options.bias_origin).clamp(0, options.bias_table.shape[1] - 1)
            scores_P = scores_P + options.bias_table[head, index_P].double()
        if options.sinks is not None:
            scores_P = torch.cat((scores_P, options.sinks[head : head + 1].double()))
        out[head] = torch.softmax(scores_P, dim=0)[: keys_KPD.shape[1]] @ values_KPD[group].double()
    return out.float()


def assert_near(got: Tensor, want: Tensor, name: str) -> None:
    """Equal within the table's tolerance for fp32 in eager PyTorch; NaN on either side fails."""
    allowed = TOLERANCES["float32", "eager"].absolute(float(want.abs().max()) if want.numel() else 0.0)
    assert got.shape == want.shape, f"{name}: shape {tuple(got.shape)}, expected {tuple(want.shape)}"
    difference = float((got - want).abs().max()) if want.numel() else 0.0
    assert difference <= allowed, f"{name} differs by {difference:.3g} (allowed {allowed:.3g})"
