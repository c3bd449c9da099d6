"""`ModelSpec`: the facts of a model that decide its caches, read from its Hugging Face config.

Shape legend: `H` query heads, `K` key/value heads, `D` head size, `E` encoder positions, `V` vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from exporter.spec.config_checks import SHARED_LAYER_TYPE, config_faults
from exporter.spec.families import (
    FAMILIES,
    Family,
    Sound,
    decoder_config,
    encoder_config,
    key_value_heads,
    own_layer_types,
)
from exporter.spec.faults import UnsupportedModelError, raise_if_any
from exporter.spec.parameters import sizes_of
from exporter.spec.weight_format import WeightSizes
from runtime_shims.contract.manifest import ModelKind

if TYPE_CHECKING:
    from transformers import PretrainedConfig

SLIDING_TYPE = "sliding_attention"


@dataclass(frozen=True)
class LayerSpec:
    """One decoder layer's attention.

    Attributes:
        window: positions a query sees, itself included (sliding layers); None on full layers.
        key_dim, value_dim: `D` of keys and of values.
        shares_kv_with: index of the layer whose cache this layer reads; None when it owns one.
        has_cross: the layer also attends to the encoder's output.
    """

    index: int
    kind: Literal["full", "sliding"]
    window: int | None
    kv_heads: int
    query_heads: int
    key_dim: int
    value_dim: int
    shares_kv_with: int | None
    has_cross: bool


@dataclass(frozen=True)
class EncoderSpec:
    """The encoder's facts.

    Attributes:
        width: size of one output vector.
        max_positions: most output positions; None when positions are relative and unlimited.
        fixed_length: output positions that every input gives (Whisper: 1500); None: one per input token.
        source_shape: shape of one row's input (Whisper: 80 mel bands, 3000 frames); None: token ids or sound.
        sound: what it hears when it takes sound of any length; None: anything else.
        vocab_size: rows of the input embedding; None when the input is not tokens.
    """

    layers: int
    heads: int
    head_dim: int
    width: int
    max_positions: int | None
    fixed_length: int | None
    source_shape: tuple[int, ...] | None
    sound: Sound | None
    vocab_size: int | None


@dataclass(frozen=True)
class RelativeBias:
    """T5's learned bias: `buckets` values per head; distances from `max_distance` on share the last one."""

    buckets: int
    max_distance: int


@dataclass(frozen=True)
class ModelSpec:
    """Everything the exporter needs to know about a model before it exists.

    Attributes:
        architecture: the transformers class that is exported.
        max_positions: decoder positions the model can address; None when unlimited.
        vocab_size: `V`, the width of the logits.
        tied_embeddings: the config says that the output head is the input embedding. The loaded model is
            the authority: a checkpoint may carry a head of its own all the same.
        has_experts: layers choose among several experts.
        attention_softcap, logit_softcap: `cap * tanh(x / cap)` on scores or on logits.
        weights: sizes of the matrices, and how many values are learned; shared ones once.
    """

    kind: ModelKind
    model_type: str
    architecture: str
    layers: tuple[LayerSpec, ...]
    encoder: EncoderSpec | None
    max_positions: int | None
    vocab_size: int
    hidden_size: int
    tied_embeddings: bool
    relative_bias: RelativeBias | None
    has_experts: bool
    attention_softcap: float | None
    logit_softcap: float | None
    weights: WeightSizes

    @classmethod
    def from_config(cls, config: PretrainedConfig) -> ModelSpec:
        """Read the facts of `config`.

        Raises:
            UnsupportedModelError: lists every missing or unsupported fact.
        """
        subject = f"model type {config.model_type}"
        raise_if_any(UnsupportedModelError, subject, config_faults(config))
        family = FAMILIES[config.model_type]
        tied, decoder = _declares_tied(config), decoder_config(config)
        return cls(
            kind=family.kind,
            model_type=config.model_type,
            architecture=_architecture(config.model_type, family.kind),
            layers=_decoder_layers(config, family),
            encoder=None if family.kind == "decoder_only" else _encoder(config, family),
            max_positions=_optional_int(decoder, family.decoder_positions),
            vocab_size=int(getattr(config, "decoder_vocab_size", None) or decoder.vocab_size),
            hidden_size=int(decoder.hidden_size),
            tied_embeddings=tied,
            relative_bias=_relative_bias(config) if family.relative_bias else None,
            has_experts=family.experts,
            attention_softcap=_optional_float(decoder, "attn_logit_softcapping"),
            logit_softcap=_optional_float(decoder, "final_logit_softcapping"),
            weights=sizes_of(config, family.kind, head_is_tied=tied),
        )

    @property
    def parameter_count(self) -> int:
        """Learned values, shared ones once."""
        return self.weights.parameter_count

    @property
    def cache_owners(self) -> tuple[LayerSpec, ...]:
        """The layers that keep keys and values of their own."""
        return tuple(layer for layer in self.layers if layer.shares_kv_with is None)


def _architecture(model_type: str, kind: ModelKind) -> str:
    """The transformers class for `kind`; older configs name a class without a head, or one that is gone."""
    from transformers.models.auto import modeling_auto

    names = {
        "decoder_only": modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        "text_seq2seq": modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
        "speech_seq2seq": modeling_auto.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES,
    }[kind]
    return str(names[model_type])


def _decoder_layers(config: PretrainedConfig, family: Family) -> tuple[LayerSpec, ...]:
    from transformers.cache_utils import get_layer_types_and_kwargs
    from transformers.configuration_utils import get_head_shapes

    text_config = decoder_config(config)
    types, arguments = own_layer_types(text_config) or get_layer_types_and_kwargs(text_config)
    if family.decoder_layers is not None:  # the text config of these still counts the encoder's layers
        count = int(getattr(config, family.decoder_layers))
        types, arguments = types[:1] * count, arguments[:1] * count
    said_heads, head_dim = get_head_shapes(text_config)
    kv_heads = _per_layer(key_value_heads(text_config) or said_heads, len(types))
    head_dims = _per_layer(head_dim, len(types))
    donors = _donors(types, text_config)
    owners = [index if donor is None else donor for index, donor in enumerate(donors)]
    return tuple(
        LayerSpec(
            index=index,
            kind="sliding" if types[owner] == SLIDING_TYPE else "full",
            window=arguments[owner].get("sliding_window"),
            kv_heads=kv_heads[owner],
            query_heads=int(text_config.num_attention_heads),
            key_dim=head_dims[owner],
            value_dim=head_dims[owner],
            shares_kv_with=donors[index],
            has_cross=family.kind != "decoder_only",
        )
        for index, owner in enumerate(owners)
    )


def _donors(types: list[str], text_config: PretrainedConfig) -> list[int | None]:
    """Per layer, the layer whose keys and values it reads: the last of its type that has its own. None: its own."""
    last = {layer_type: index for index, layer_type in enumerate(types) if layer_type != SHARED_LAYER_TYPE}
    return [
        last[text_config.layer_types[index]] if layer_type == SHARED_LAYER_TYPE else None
        for index, layer_type in enumerate(types)
    ]


def _encoder(config: PretrainedConfig, family: Family) -> EncoderSpec:
    from transformers.configuration_utils import get_head_shapes

    text_config = encoder_config(config)
    _, head_dim = get_head_shapes(text_config)
    fixed_length = _optional_int(config, family.encoder_length)
    most = _optional_int(text_config, family.encoder_positions)
    return EncoderSpec(
        layers=int(text_config.num_hidden_layers),
        heads=int(text_config.num_attention_heads),
        head_dim=_per_layer(head_dim, 1)[0],
        width=int(text_config.hidden_size),
        max_positions=fixed_length or (None if most is None else -(-most // family.source_frames_per_position)),
        fixed_length=fixed_length,
        source_shape=_source_shape(config, family, fixed_length),
        sound=family.sound,
        vocab_size=None if family.kind == "speech_seq2seq" else int(text_config.vocab_size),
    )


def _source_shape(config: PretrainedConfig, family: Family, length: int | None) -> tuple[int, int] | None:
    if family.kind != "speech_seq2seq" or length is None:
        return None
    return int(config.num_mel_bins), length * family.source_frames_per_position


def _declares_tied(config: PretrainedConfig) -> bool:
    """Whether the checkpoint's config ties the head.

    T5 forces `tie_word_embeddings` and keeps what the checkpoint said as `scale_decoder_outputs`; mT5
    forces it and forgets (every published mT5 has a head of its own).
    """
    if config.model_type == "mt5":
        return False
    return bool(getattr(config, "scale_decoder_outputs", config.tie_word_embeddings))


def _relative_bias(config: PretrainedConfig) -> RelativeBias:
    return RelativeBias(
        buckets=int(config.relative_attention_num_buckets),
        max_distance=int(config.relative_attention_max_distance),
    )


def _per_layer(value: int | list[int], count: int) -> list[int]:
    return [int(value)] * count if isinstance(value, int) else [int(item) for item in value]


def _optional_int(config: PretrainedConfig, attribute: str | None) -> int | None:
    return None if attribute is None else int(getattr(config, attribute))


def _optional_float(config: PretrainedConfig, attribute: str) -> float | None:
    value = getattr(config, attribute, None)
    return None if value is None else float(value)
