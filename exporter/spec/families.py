"""What a config does not say about itself: which attributes of a model type carry the facts.

A row is a kind of position scheme and encoder, not a checkpoint; everything else is read from the config.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from runtime_shims.contract.manifest import ModelKind
from runtime_shims.contract.sound_positions import SoundPositions

if TYPE_CHECKING:
    from transformers import PretrainedConfig


@dataclass(frozen=True)
class Sound:
    """What an encoder hears that takes sound of any length.

    Attributes:
        sampling_rate: samples per second.
        positions: how samples become encoder positions.
        bands: config attribute with the mel bands of the features that a program makes first; None: it hears the
            waveform itself.
    """

    sampling_rate: int
    positions: SoundPositions
    bands: str | None = None


@dataclass(frozen=True)
class Family:
    """Where a model type keeps its facts.

    Attributes:
        kind: what the model consumes and produces.
        decoder_positions: config attribute with the number of decoder positions; None: relative, unlimited.
        encoder_positions: the same for the encoder's tokens or frames; None: relative, unlimited, or no encoder.
        encoder_length: config attribute with the fixed encoder output length; None: one output per token.
        decoder_layers: config attribute with the number of decoder layers, where the text config hides it.
        relative_bias: self-attention adds a learned bias per distance, of each layer or of the stack's first one.
        experts: its layers are mixtures of experts, run through transformers' interface for them.
        source_frames_per_position: input frames that become one encoder position (speech features).
        sound: the encoder takes sound of any length; None: features of one length, tokens, or no encoder.
        shared_window: the window of an encoder's sliding layer is what both sides have together, not each.
    """

    kind: ModelKind
    decoder_positions: str | None
    encoder_positions: str | None = None
    encoder_length: str | None = None
    decoder_layers: str | None = None
    relative_bias: bool = False
    experts: bool = False
    source_frames_per_position: int = 1
    sound: Sound | None = None
    shared_window: bool = False


_ROTARY = Family("decoder_only", decoder_positions="max_position_embeddings")
_EXPERTS = Family("decoder_only", decoder_positions="max_position_embeddings", experts=True)
_RELATIVE_SEQ2SEQ = Family(
    "text_seq2seq", decoder_positions=None, decoder_layers="num_decoder_layers", relative_bias=True
)
_TABLE_SEQ2SEQ = Family(
    "text_seq2seq", decoder_positions="max_position_embeddings", encoder_positions="max_position_embeddings"
)

FAMILIES: dict[str, Family] = {
    "t5": _RELATIVE_SEQ2SEQ,
    "mt5": _RELATIVE_SEQ2SEQ,
    "umt5": _RELATIVE_SEQ2SEQ,
    "t5gemma": _TABLE_SEQ2SEQ,
    "t5gemma2": replace(_TABLE_SEQ2SEQ, shared_window=True),
    "bart": _TABLE_SEQ2SEQ,
    "mbart": _TABLE_SEQ2SEQ,
    "marian": _TABLE_SEQ2SEQ,
    "pegasus": _TABLE_SEQ2SEQ,
    "m2m_100": _TABLE_SEQ2SEQ,
    "blenderbot": _TABLE_SEQ2SEQ,
    "blenderbot-small": _TABLE_SEQ2SEQ,
    "whisper": Family(
        "speech_seq2seq",
        decoder_positions="max_target_positions",
        encoder_length="max_source_positions",
        source_frames_per_position=2,  # the second convolution has stride 2
    ),
    "moonshine": Family(
        "speech_seq2seq",
        decoder_positions="max_position_embeddings",
        # three convolutions: 127, 7 and 3 wide, 64, 3 and 2 apart
        sound=Sound(16_000, SoundPositions(window=895, stride=384)),
    ),
    "speech_to_text": Family(
        "speech_seq2seq",
        decoder_positions="max_target_positions",
        encoder_positions="max_source_positions",
        source_frames_per_position=4,  # both convolutions have stride 2
        # frames of 400 samples, 160 apart
        sound=Sound(16_000, SoundPositions(window=400, stride=640), bands="input_feat_per_channel"),
    ),
    "llama": _ROTARY,
    "ministral": _ROTARY,
    "mistral": _ROTARY,
    "ministral3": _ROTARY,
    "phi": _ROTARY,
    "phi3": _ROTARY,
    "qwen2": _ROTARY,
    "qwen3": _ROTARY,
    "gemma": _ROTARY,
    "gemma2": _ROTARY,
    "gemma3_text": _ROTARY,
    "gemma3n_text": _ROTARY,
    "gemma4_text": _ROTARY,
    "gemma4_unified_text": _ROTARY,
    "smollm3": _ROTARY,
    "olmo": _ROTARY,
    "olmo2": _ROTARY,
    "olmo3": _ROTARY,
    "granite": _ROTARY,
    "gpt_neox": _ROTARY,
    "cohere": _ROTARY,
    "cohere2": _ROTARY,
    "stablelm": _ROTARY,
    "exaone4": _ROTARY,
    "glm": _ROTARY,
    "glm4": _ROTARY,
    "helium": _ROTARY,
    "starcoder2": _ROTARY,
    "nemotron": _ROTARY,
    "ernie4_5": _ROTARY,
    "hunyuan_v1_dense": _ROTARY,
    "seed_oss": _ROTARY,
    "arcee": _ROTARY,
    "apertus": _ROTARY,
    "mixtral": _EXPERTS,
    "qwen2_moe": _EXPERTS,
    "qwen3_moe": _EXPERTS,
    "olmoe": _EXPERTS,
    "gpt_oss": _EXPERTS,
    "gpt_neo": Family("decoder_only", decoder_positions="max_position_embeddings"),
    "falcon": _ROTARY,
    "bloom": Family("decoder_only", decoder_positions=None),
    "gpt2": Family("decoder_only", decoder_positions="n_positions"),
}

_OWN_ATTENTION = "attention in code of its own, which asks no registered attention function"

# Well-known model types that look supported but are not, and the fact that stands in the way.
KNOWN_OBSTACLES: dict[str, str] = {
    "mpt": _OWN_ATTENTION,
    "prophetnet": "n-gram attention over several streams, in code of its own",
    "llama4": "chunked attention",
    "llama4_text": "chunked attention",
}


def decoder_config(config: PretrainedConfig) -> PretrainedConfig:
    """The config of what writes tokens: the model's own, or the one it nests for its decoder."""
    return config.get_text_config(decoder=True)


def encoder_config(config: PretrainedConfig) -> PretrainedConfig:
    """The config of the encoder: the model's own, or the one it nests under `encoder`."""
    nested = getattr(config, "encoder", None)
    return config.get_text_config(encoder=True) if nested is None else nested.get_text_config()


def nests_its_stacks(config: PretrainedConfig) -> bool:
    """Whether encoder and decoder have configs of their own (T5Gemma 1 and 2)."""
    return getattr(config, "encoder", None) is not None and getattr(config, "decoder", None) is not None


def key_value_heads(config: PretrainedConfig) -> int | None:
    """Heads of keys and values that a layer's matrix makes, where the config does not say `num_key_value_heads`.

    Falcon's `num_kv_heads` counts with the new architecture alone; otherwise there is one head, or one for each query
    head. None: any other model.
    """
    if config.model_type != "falcon":
        return None
    if config.new_decoder_architecture:
        return int(config.num_kv_heads)
    return 1 if config.multi_query else int(config.num_attention_heads)


def own_layer_types(config: PretrainedConfig) -> tuple[list[str], list[dict[str, int]]] | None:
    """Layer types and their arguments as transformers gives them, where the config has names of its own for them.

    GPT-Neo's local layers look back as sliding ones do. None: any other model.
    """
    if config.model_type != "gpt_neo":
        return None
    is_local = [kind == "local" for kind in config.attention_layers]
    types = ["sliding_attention" if local else "full_attention" for local in is_local]
    return types, [{"sliding_window": config.window_size} if local else {} for local in is_local]
