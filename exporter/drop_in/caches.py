"""The caches that `generate` gets: what a request is, when one begins, and what can be taken back of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin, DummyLayer, EncoderDecoderCache

from exporter.drop_in.cross_attention import CrossAttentionLayer
from exporter.drop_in.plan import CachePlan
from exporter.drop_in.self_attention import SelfAttentionLayer
from runtime_shims.contract.errors import RollbackTooDeep, UnsupportedSetting, UserInputError
from runtime_shims.contract.formatting import format_bytes


class RequestCache(Cache):
    """Every `generate` call is a request of its own, unless the caller says that it goes on.

    `generate` marks the cache that its caller gave by setting `_is_user_defined`, once per call and before the model
    runs. That is where the last request is forgotten.
    """

    plan: CachePlan
    _continues = False
    _is_given = False
    _resumed_at: int | None = None

    @property
    def _is_user_defined(self) -> bool:
        return self._is_given

    @_is_user_defined.setter
    def _is_user_defined(self, value: bool) -> None:
        self._is_given = value
        if self._continues:
            self._continues = False
            self._resumed_at = self.get_seq_length()
        else:
            self.reset()

    def activate_past_recording(self) -> None:
        """Rings always record. Where transformers begins with this, its drafts come with the whole text once more.

        A request that was to go on then begins anew. After a step was written it goes on.
        """
        if self._resumed_at == self.get_seq_length():
            self.reset()

    def reset(self) -> None:
        """Forget the request, an encoder's keys and values included. Nothing is cleared or allocated."""
        self._continues = False
        self._resumed_at = None
        super().reset()

    def continue_request(self) -> None:
        """The next `generate` call goes on where this request stands, once.

        Give that call the whole conversation's ids; those that the cache holds are not computed again. Without this
        call the answer is the same, and they are; so they are where an assistant or prompt lookup drafts.

        Raises:
            UserInputError: the last step was broken off, so that layers hold different lengths.
            UnsupportedSetting: the model has an encoder.
        """
        if len({layer.length for layer in self.owners}) > 1:
            raise UserInputError("the last step was broken off half-way: call reset() and begin the request again")
        self._continues = True

    @property
    def owners(self) -> Sequence[SelfAttentionLayer]:
        """The self-attention layers that have keys and values of their own."""
        return [layer for layer in self.layers if isinstance(layer, SelfAttentionLayer)]

    @property
    def memory_bytes(self) -> int:
        """Bytes of all buffers."""
        return self.plan.memory_bytes

    def __repr__(self) -> str:
        capacity = self.plan.capacity
        encoder = "" if capacity.max_enc is None else f"max_enc={capacity.max_enc}, "
        return (
            f"{type(self).__name__}(max_batch={capacity.max_batch}, {encoder}max_dec={capacity.max_dec}, "
            f"max_draft={capacity.max_draft}, {format_bytes(self.memory_bytes)})"
        )


class FixedCapacityCache(RequestCache):
    """Self-attention caches of all decoder layers, allocated once."""

    def __init__(self, plan: CachePlan) -> None:
        """Allocate `plan`'s buffers, those of cross attention excepted."""
        layers = [
            DummyLayer() if layer is None else SelfAttentionLayer(index, layer, plan.capacity)
            for index, layer in enumerate(plan.layers)
        ]
        super().__init__(layers=layers)
        self.plan = plan

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Write a step's keys and values to a layer, see `SelfAttentionLayer.update`.

        Raises:
            UnsupportedSetting: the cache was made for a model of fewer layers.
        """
        if layer_idx >= len(self.layers):
            count = len(self.layers)
            raise UnsupportedSetting(f"layer {layer_idx} of a model, the cache has {count}: make it for this model")
        return super().update(key_states, value_states, layer_idx, *args, **kwargs)

    def crop(self, tokens_to_remove: int) -> None:
        """Take tokens back: so many of the last when negative, all but so many of the first when positive.

        One integer per layer changes; nothing is copied.

        Raises:
            RollbackTooDeep: sliding layers have overwritten what the rest would need; nothing was changed.
        """
        length = self.get_seq_length()
        removed = max(length - tokens_to_remove, 0) if tokens_to_remove > 0 else -tokens_to_remove
        written = [layer for layer in self.owners if layer.rows]
        allowed = min((layer.max_rollback for layer in written), default=0)
        if removed > length:
            raise RollbackTooDeep(f"asked to take {removed} tokens back, the cache holds {length}")
        if removed > allowed:
            raise RollbackTooDeep(
                f"asked to take {removed} of {length} tokens back, at most {allowed} can be: sliding layers keep "
                f"{self.plan.capacity.max_draft + 1} tokens beyond their window: make the cache with a max_draft of at "
                f"least {removed}"
            )
        for layer in written:
            layer.crop(-removed)


class CrossAttentionCache(Cache):
    """Cross-attention caches of all decoder layers; made from a config, as T5Gemma's `generate` does, it holds none."""

    def __init__(self, layers: Sequence[CacheLayerMixin] = (), **kwargs: Any) -> None:
        """Hold `layers`; `kwargs` are those of transformers' caches, which allocate as they go."""
        super().__init__(layers=list(layers))


class FixedCapacityEncoderDecoderCache(RequestCache, EncoderDecoderCache):
    """Self- and cross-attention caches of all decoder layers, allocated once."""

    def __init__(self, plan: CachePlan) -> None:
        """Allocate `plan`'s buffers."""
        cross = [
            DummyLayer() if layer is None else CrossAttentionLayer(index, layer, plan.capacity, self.reset)
            for index, layer in enumerate(plan.layers)
        ]
        self._cross = CrossAttentionCache(cross)
        super().__init__(FixedCapacityCache(plan), self._cross)
        self.plan = plan

    @property
    def cross_attention_cache(self) -> CrossAttentionCache:
        """The one that was allocated. T5Gemma's `generate` sets another of its class, which is let go."""
        return self._cross

    @cross_attention_cache.setter
    def cross_attention_cache(self, value: Cache) -> None:
        pass

    @property
    def owners(self) -> Sequence[SelfAttentionLayer]:
        return self.self_attention_cache.owners

    def continue_request(self) -> None:
        """Refused: transformers writes a decoder's text behind an encoder whole, whatever the cache holds."""
        raise UnsupportedSetting(
            "requests with an encoder do not go on: give generate the whole text without this call, for the same answer"
        )

    def check_dynamic_cache(self, method: str) -> None:
        """Transformers asks this before it takes back, repeats or selects: all of that works here."""
