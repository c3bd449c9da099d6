"""`CapacityPlan`: one geometry per cache, and every byte they cost, before any tensor exists.

This is the only place where capacities are summed. A cache of `K` key/value heads and `S` slots holds
`[B, K, S, D]` keys and `[B, K, S, Dv]` values, `B` being `max_batch`.
"""

from __future__ import annotations

from dataclasses import dataclass

from exporter.spec.assistant import AssistantSpec
from exporter.spec.families import Sound
from exporter.spec.faults import PlanError, raise_if_any
from exporter.spec.limits import limit_faults
from exporter.spec.memory_budget import require_budget
from exporter.spec.model_spec import LayerSpec, ModelSpec
from exporter.spec.weight_format import WeightFormat, WeightSizes, cache_type
from runtime_shims.contract.cache_geometry import CacheGeometry, CrossGeometry
from runtime_shims.contract.cache_types import ELEMENT_BYTES, position_bytes
from runtime_shims.contract.manifest import CacheEntry, Limits, ModelKind, ResolvedRecipe, Speech


@dataclass(frozen=True)
class PlannedCache:
    """The keys and values of one layer.

    Attributes:
        layer: index of the decoder layer that writes it.
        window: positions that a query of the layer sees, itself included; None when it sees everything.
        dynamic_positions: positions a cache of exact size holds when the sequence is full.
        static_positions: positions a static cache without a ring holds.
    """

    layer: int
    window: int | None
    geometry: CacheGeometry | CrossGeometry
    kv_heads: int
    key_dim: int
    value_dim: int
    dtype: str
    max_batch: int
    dynamic_positions: int
    static_positions: int

    @property
    def kind(self) -> str:
        return "cross" if isinstance(self.geometry, CrossGeometry) else self.geometry.kind

    @property
    def reach(self) -> int:
        return self.geometry.max_enc if isinstance(self.geometry, CrossGeometry) else self.geometry.reach

    @property
    def size_bytes(self) -> int:
        return self.bytes_for(self.geometry.slots)

    def bytes_for(self, positions: int) -> int:
        """Bytes of `max_batch` rows of keys and values with room for `positions`."""
        of_head = position_bytes(self.dtype, self.key_dim) + position_bytes(self.dtype, self.value_dim)
        return self.max_batch * self.kv_heads * positions * of_head

    def entry(self) -> CacheEntry:
        """The manifest's record of this cache."""
        return CacheEntry(
            name=f"{'cross' if self.kind == 'cross' else 'self'}.{self.layer}",
            layer=self.layer,
            kind=self.geometry.kind if isinstance(self.geometry, CacheGeometry) else "cross",
            reach=self.reach,
            slots=self.geometry.slots,
            kv_heads=self.kv_heads,
            key_dim=self.key_dim,
            value_dim=self.value_dim,
            dtype=self.dtype,
            size_bytes=self.size_bytes,
        )


@dataclass(frozen=True)
class CapacityPlan:
    """Limits, caches and bytes of one export.

    Attributes:
        encoder_width: size of one encoder output vector; None without an encoder.
        position_limit: positions the decoder can address; None when unlimited.
        source_shape: shape of one row's speech features; None for text and for sound.
        sound: what an encoder hears that takes a waveform of any length.
        self_caches, cross_caches: one per owning layer, in layer order.
        assistant: what drafts tokens over the caches of this model.
    """

    kind: ModelKind
    recipe: ResolvedRecipe
    vocab_size: int
    encoder_width: int | None
    position_limit: int | None
    source_shape: tuple[int, ...] | None
    sound: Sound | None
    self_caches: tuple[PlannedCache, ...]
    cross_caches: tuple[PlannedCache, ...]
    cache_of: tuple[int, ...]
    weights: WeightSizes
    assistant: AssistantSpec | None = None

    @classmethod
    def build(
        cls,
        spec: ModelSpec,
        recipe: ResolvedRecipe,
        *,
        max_memory_bytes: int | None = None,
        assistant: AssistantSpec | None = None,
    ) -> CapacityPlan:
        """Plan an export, with an assistant that drafts over the model's caches if one is given; nothing is allocated.

        Raises:
            PlanError: a limit exceeds the model, or the total exceeds `max_memory_bytes`; lists all.
        """
        raise_if_any(PlanError, recipe.model, limit_faults(spec, recipe))
        max_step = max(recipe.prefill_chunk, recipe.max_draft + 1)
        owners = spec.cache_owners
        plan = cls(
            kind=spec.kind,
            recipe=recipe,
            vocab_size=spec.vocab_size,
            encoder_width=None if spec.encoder is None else spec.encoder.width,
            position_limit=spec.max_positions,
            source_shape=None if spec.encoder is None else spec.encoder.source_shape,
            sound=None if spec.encoder is None else spec.encoder.sound,
            self_caches=tuple(
                _self_cache(layer, recipe, max_step, 0 if assistant is None else assistant.looks_further(layer))
                for layer in owners
            ),
            cross_caches=tuple(_cross_cache(layer, recipe) for layer in owners if layer.has_cross),
            cache_of=_cache_of(spec),
            weights=spec.weights if assistant is None else spec.weights + assistant.weights,
            assistant=assistant,
        )
        require_budget(plan, max_memory_bytes)
        return plan

    @property
    def max_batch(self) -> int:
        return self.recipe.max_batch

    @property
    def max_enc(self) -> int | None:
        return self.recipe.max_enc

    @property
    def max_step(self) -> int:
        """Most tokens one call writes per row."""
        return max(self.recipe.prefill_chunk, self.recipe.max_draft + 1)

    @property
    def max_logit_rows(self) -> int:
        """Most step tokens per row that are projected to logits: the drafts and the token before them."""
        return self.recipe.max_draft + 1

    @property
    def speech(self) -> Speech | None:
        """The manifest's record of sound of any length; None where there is no such encoder."""
        if self.sound is None:
            return None
        positions = self.sound.positions
        return Speech(self.sound.sampling_rate, positions.most_samples(self.max_enc or 1), positions)

    @property
    def caches(self) -> tuple[PlannedCache, ...]:
        return self.self_caches + self.cross_caches

    @property
    def cache_bytes(self) -> int:
        return sum(cache.size_bytes for cache in self.caches)

    @property
    def dynamic_cache_bytes(self) -> int:
        """What caches of exact size would take once every row is full."""
        return sum(cache.bytes_for(cache.dynamic_positions) for cache in self.caches)

    @property
    def static_cache_bytes(self) -> int:
        """What static caches would take that keep every position on every layer."""
        return sum(cache.bytes_for(cache.static_positions) for cache in self.caches)

    @property
    def parameter_count(self) -> int:
        return self.weights.parameter_count

    @property
    def weights_bytes(self) -> int:
        return self.weights.bytes_in(WeightFormat.of(self.recipe))

    @property
    def logits_bytes(self) -> int:
        return self.max_batch * self.max_logit_rows * self.vocab_size * ELEMENT_BYTES["float32"]

    @property
    def total_bytes(self) -> int:
        """Weights, caches and logits. The other activations are known once the program is lowered."""
        return self.weights_bytes + self.cache_bytes + self.logits_bytes

    def cache_of_layer(self, layer: int) -> int:
        """Index in `self_caches` of the cache that decoder layer `layer` reads."""
        return self.cache_of[layer]

    def limits(self) -> Limits:
        """The manifest's record of the limits."""
        return Limits(
            max_batch=self.max_batch,
            max_enc=self.max_enc,
            max_dec=self.recipe.max_dec,
            max_draft=self.recipe.max_draft,
            max_step=self.max_step,
            max_logit_rows=self.max_logit_rows,
            source_shape=self.source_shape,
        )

    def entries(self) -> tuple[CacheEntry, ...]:
        """The manifest's record of every cache."""
        return tuple(cache.entry() for cache in self.caches)


def _self_cache(layer: LayerSpec, recipe: ResolvedRecipe, max_step: int, more: int = 0) -> PlannedCache:
    """The cache of a layer, for whose reader `more` positions than its window are kept."""
    reach = recipe.max_dec if layer.window is None else min(layer.window, recipe.max_dec)
    return PlannedCache(
        layer=layer.index,
        window=None if layer.window is None else reach,
        geometry=CacheGeometry(kind=layer.kind, reach=min(reach + more, recipe.max_dec), max_step=max_step),
        kv_heads=layer.kv_heads,
        key_dim=layer.key_dim,
        value_dim=layer.value_dim,
        dtype=cache_type(recipe),
        max_batch=recipe.max_batch,
        dynamic_positions=reach,
        static_positions=recipe.max_dec,
    )


def _cross_cache(layer: LayerSpec, recipe: ResolvedRecipe) -> PlannedCache:
    geometry = CrossGeometry(max_enc=recipe.max_enc or 0)
    return PlannedCache(
        layer=layer.index,
        window=None,
        geometry=geometry,
        kv_heads=layer.kv_heads,
        key_dim=layer.key_dim,
        value_dim=layer.value_dim,
        dtype=cache_type(recipe),
        max_batch=recipe.max_batch,
        dynamic_positions=geometry.slots,
        static_positions=geometry.slots,
    )


def _cache_of(spec: ModelSpec) -> tuple[int, ...]:
    index = {layer.index: position for position, layer in enumerate(spec.cache_owners)}
    return tuple(index[layer.index if layer.shares_kv_with is None else layer.shares_kv_with] for layer in spec.layers)
