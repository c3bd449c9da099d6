"""What a config does not say about itself: which attributes of a model type carry the facts.

A row is a kind of position scheme and encoder, not a checkpoint; everything else is read from the config.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime_shims.contract.manifest import ModelKind
from runtime_shims.contract.sound_positions import SoundPositions

if TYPE_CHECKING:
    from transformers import PretrainedConfig


@dataclass(frozen=True)
class Sound:
    """What an encoder hears that takes a waveform of any length.

    Attributes:
        sampling_rate: samples per second.
        positions: how samples become encoder positions.
    """

    sampling_rate: int
    positions: SoundPositions


@dataclass(frozen=True)
class Family:
    """Where a model type keeps its facts.

    Attributes:
        kind: what the model consumes and produces.
        decoder_positions: config attribute with the number of decoder positions; None: relative, unlimited.
        encoder_positions: the same for the encoder's input; None: relative, unlimited, or no encoder.
        encoder_length: config attribute with the fixed encoder output length; None: one output per token.
        decoder_layers: config attribute with the number of decoder layers, where the text config hides it.
        relative_bias: self-attention adds a learned bias per distance, of each layer or of the stack's first one.
        experts: its layers are mixtures of experts, run through transformers' interface for them.
        source_frames_per_position: input frames that become one encoder position (speech features).
        sound: the encoder takes a waveform of any length; None: features, tokens, or no encoder.
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
    "gpt2": Family("decoder_only", decoder_positions="n_positions"),
}

_OWN_ATTENTION = "attention in code of its own, which asks no registered attention function"

# Well-known model types that look supported but are not, and the fact that stands in the way.
KNOWN_OBSTACLES: dict[str, str] = {
    "falcon": _OWN_ATTENTION,
    "gpt_neo": _OWN_ATTENTION,
    "bloom": _OWN_ATTENTION,
    "mpt": _OWN_ATTENTION,
    "speech_to_text": "features of any length; speech programs take features of one length, or the sound itself",
    "prophetnet": "n-gram attention over several streams, in code of its own",
    "t5gemma2": "one attention over the decoder's and the encoder's keys together",
    "llama4": "chunked attention",
    "llama4_text": "chunked attention",
}


def decoder_config(config: PretrainedConfig) -> PretrainedConfig:
    """The config of what writes tokens: the model's own, or the one it nests for its decoder."""
    return config.get_text_config(decoder=True)


def encoder_config(config: PretrainedConfig) -> PretrainedConfig:
    """The config of the encoder: the model's own, or the one it nests under `encoder`."""
    nested = getattr(config, "encoder", None)
    return config.get_text_config(encoder=True) if nested is None else nested


def nests_its_stacks(config: PretrainedConfig) -> bool:
    """Whether encoder and decoder have configs of their own (T5Gemma)."""
    return getattr(config, "encoder", None) is not None and getattr(config, "decoder", None) is not None
