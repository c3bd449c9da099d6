"""Tiny models with seeded weights, built in code: the subjects of most tests.

Shape legend: ``B`` batch, ``E`` encoder positions, ``T`` tokens, ``V`` vocabulary.

Weights are drawn by parameter name from a generator of their own, so a model is the same whatever ran
before it and however transformers initialises. They are large on purpose: flat logits would let wrong
attention pass as right.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoModelForSpeechSeq2Seq,
    GenerationConfig,
    PretrainedConfig,
    PreTrainedModel,
    WhisperFeatureExtractor,
)

from exporter.spec import hearing
from exporter.spec.families import FAMILIES
from runtime_shims.contract.sound_positions import SoundPositions
from tests.support import tiny_configs, tiny_decoders, tiny_experts, tiny_own_attention, tiny_seq2seq

Kind = Literal["decoder_only", "text_seq2seq", "speech_seq2seq"]
SCORE_MATRICES = ("q", "k", "q_proj", "k_proj", "c_attn", "qkv_proj", "query_key_value")


@dataclass(frozen=True)
class TinyCase:
    """One tiny model.

    Attributes:
        embedding_std: standard deviation of embeddings; with a tied head it also sets the logits' scale.
        score_std: standard deviation of query and key projections; it sets how sharp attention is. Sharper
            attention lets float32 rounding grow until no tolerance tells it from a fault.
        weight_std: standard deviation of every other matrix.
        seed: chosen, as the scales are, so that greedy text varies and no row ends within 24 tokens.
    """

    name: str
    kind: Kind
    config: Callable[[], PretrainedConfig]
    embedding_std: float
    score_std: float
    weight_std: float
    seed: int


def _cases() -> dict[str, TinyCase]:
    text, speech, decoder = "text_seq2seq", "speech_seq2seq", "decoder_only"
    cases = (
        TinyCase("t5", text, tiny_configs.t5, 1.0, 0.25, 0.4, 0),
        TinyCase("flan_t5", text, tiny_configs.flan_t5, 0.4, 0.125, 0.4, 1),
        TinyCase("mt5", text, tiny_configs.mt5, 0.4, 0.125, 0.4, 0),
        TinyCase("bart", text, tiny_configs.bart, 0.2, 0.4, 0.15, 3),
        TinyCase("mbart", text, tiny_configs.mbart, 0.2, 0.4, 0.8, 0),
        TinyCase("marian", text, tiny_configs.marian, 0.2, 0.4, 0.22, 3),
        TinyCase("pegasus", text, tiny_seq2seq.pegasus, 0.3, 0.4, 1.0, 4),
        TinyCase("umt5", text, tiny_seq2seq.umt5, 0.4, 0.125, 0.4, 1),
        TinyCase("m2m_100", text, tiny_seq2seq.m2m_100, 0.2, 0.4, 0.8, 4),
        TinyCase("blenderbot", text, tiny_seq2seq.blenderbot, 0.2, 0.25, 0.8, 0),
        TinyCase("blenderbot_small", text, tiny_seq2seq.blenderbot_small, 0.6, 0.4, 0.3, 1),
        TinyCase("t5gemma", text, tiny_seq2seq.t5gemma, 0.1, 0.4, 0.15, 5),
        TinyCase("t5gemma2", text, tiny_seq2seq.t5gemma2, 0.1, 0.4, 0.25, 0),
        TinyCase("whisper", speech, tiny_configs.whisper, 0.4, 0.3, 0.25, 0),
        TinyCase("moonshine", speech, tiny_configs.moonshine, 0.3, 0.4, 0.6, 7),
        TinyCase("speech_to_text", speech, tiny_configs.speech_to_text, 0.2, 0.25, 0.8, 4),
        TinyCase("llama", decoder, tiny_configs.llama, 0.4, 0.4, 0.25, 2),
        TinyCase("qwen2", decoder, tiny_configs.qwen2, 0.3, 0.4, 0.4, 0),
        TinyCase("qwen3", decoder, tiny_configs.qwen3, 0.3, 0.4, 0.4, 2),
        TinyCase("mistral", decoder, tiny_configs.mistral, 0.4, 0.4, 0.25, 1),
        TinyCase("gemma2", decoder, tiny_configs.gemma2, 0.1, 0.4, 0.5, 1),
        TinyCase("gemma3", decoder, tiny_configs.gemma3, 0.1, 0.4, 0.25, 2),
        TinyCase("gemma3n", decoder, tiny_decoders.gemma3n, 0.2, 0.4, 0.25, 1),
        TinyCase("gemma4", decoder, tiny_configs.gemma4, 0.1, 0.4, 0.5, 1),
        TinyCase("gemma4_unified", decoder, tiny_configs.gemma4_unified, 0.1, 0.4, 1.0, 7),
        TinyCase("gpt2", decoder, tiny_configs.gpt2, 0.3, 0.4, 0.4, 2),
        TinyCase("gemma", decoder, tiny_decoders.gemma, 0.1, 0.4, 0.4, 1),
        TinyCase("ministral", decoder, tiny_decoders.ministral, 0.4, 0.4, 0.25, 1),
        TinyCase("ministral3", decoder, tiny_decoders.ministral3, 0.4, 0.4, 0.25, 2),
        TinyCase("phi", decoder, tiny_decoders.phi, 0.4, 0.4, 0.25, 2),
        TinyCase("phi3", decoder, tiny_decoders.phi3, 0.4, 0.4, 0.25, 0),
        TinyCase("smollm3", decoder, tiny_decoders.smollm3, 0.4, 0.4, 0.25, 3),
        TinyCase("olmo", decoder, tiny_decoders.olmo, 0.4, 0.4, 0.25, 1),
        TinyCase("olmo2", decoder, tiny_decoders.olmo2, 0.4, 0.4, 0.25, 0),
        TinyCase("olmo3", decoder, tiny_decoders.olmo3, 0.4, 0.4, 0.25, 2),
        TinyCase("granite", decoder, tiny_decoders.granite, 0.4, 0.4, 0.25, 2),
        TinyCase("gpt_neox", decoder, tiny_decoders.gpt_neox, 0.4, 0.4, 0.25, 2),
        TinyCase("cohere", decoder, tiny_decoders.cohere, 0.4, 0.4, 0.25, 0),
        TinyCase("cohere2", decoder, tiny_decoders.cohere2, 0.4, 0.4, 0.4, 0),
        TinyCase("stablelm", decoder, tiny_decoders.stablelm, 0.4, 0.4, 0.25, 0),
        TinyCase("exaone4", decoder, tiny_decoders.exaone4, 0.4, 0.4, 0.25, 3),
        TinyCase("glm", decoder, tiny_decoders.glm, 0.4, 0.4, 0.25, 3),
        TinyCase("glm4", decoder, tiny_decoders.glm4, 0.4, 0.4, 0.25, 0),
        TinyCase("helium", decoder, tiny_decoders.helium, 0.4, 0.4, 0.25, 1),
        TinyCase("starcoder2", decoder, tiny_decoders.starcoder2, 0.4, 0.4, 0.25, 1),
        TinyCase("nemotron", decoder, tiny_decoders.nemotron, 0.4, 0.25, 0.25, 0),
        TinyCase("ernie4_5", decoder, tiny_decoders.ernie4_5, 0.4, 0.4, 0.4, 2),
        TinyCase("hunyuan", decoder, tiny_decoders.hunyuan, 0.4, 0.4, 0.25, 0),
        TinyCase("seed_oss", decoder, tiny_decoders.seed_oss, 0.4, 0.4, 0.25, 2),
        TinyCase("arcee", decoder, tiny_decoders.arcee, 0.4, 0.4, 0.25, 2),
        TinyCase("apertus", decoder, tiny_decoders.apertus, 0.4, 0.4, 0.25, 1),
        TinyCase("falcon", decoder, tiny_own_attention.falcon, 0.4, 0.4, 0.25, 2),
        TinyCase("falcon_40b", decoder, tiny_own_attention.falcon_40b, 0.4, 0.4, 0.25, 2),
        TinyCase("falcon_sequential", decoder, tiny_own_attention.falcon_sequential, 0.4, 0.4, 0.25, 2),
        TinyCase("bloom", decoder, tiny_own_attention.bloom, 0.2, 0.4, 0.4, 4),
        TinyCase("gpt_neo", decoder, tiny_own_attention.gpt_neo, 0.3, 0.25, 0.4, 2),
        TinyCase("mixtral", decoder, tiny_experts.mixtral, 0.4, 0.4, 0.25, 0),
        TinyCase("qwen2_moe", decoder, tiny_experts.qwen2_moe, 0.4, 0.4, 0.25, 0),
        TinyCase("qwen3_moe", decoder, tiny_experts.qwen3_moe, 0.4, 0.4, 0.25, 1),
        TinyCase("olmoe", decoder, tiny_experts.olmoe, 0.4, 0.4, 0.25, 1),
        TinyCase("gpt_oss", decoder, tiny_experts.gpt_oss, 0.4, 0.4, 0.4, 1),
    )
    return {case.name: case for case in cases}


CASES = _cases()
DECODER_ONLY = tuple(name for name, case in CASES.items() if case.kind == "decoder_only")
TEXT_SEQ2SEQ = tuple(name for name, case in CASES.items() if case.kind == "text_seq2seq")
EXPERTS = tuple(name for name, case in CASES.items() if case.config.__module__ == tiny_experts.__name__)
SOUND = {
    "moonshine": SoundPositions(window=895, stride=384),
    "speech_to_text": SoundPositions(window=400, stride=640),
}
HEARS_SOUND = tuple(SOUND)
OWN_CROSS_CACHE = ("t5gemma", "t5gemma2")
"""Those whose `generate` makes a cross cache, whatever it is given."""
ENCODER_DECODER = tuple(name for name, case in CASES.items() if case.kind != "decoder_only")


def build(name: str) -> PreTrainedModel:
    """The tiny model ``name``: fp32, eval mode, no gradients, the same weights on every call."""
    case = CASES[name]
    auto = {
        "decoder_only": AutoModelForCausalLM,
        "text_seq2seq": AutoModelForSeq2SeqLM,
        "speech_seq2seq": AutoModelForSpeechSeq2Seq,
    }[case.kind]
    model = auto.from_config(case.config(), dtype=torch.float32).eval().requires_grad_(False)
    _fill(model, case)
    model.generation_config = _generation_config(model.config)
    return model


def build_assistant(*, clustered: bool = False, seed: int = 0) -> PreTrainedModel:
    """An assistant of the tiny model `gemma4`; clustered, its words are in no order."""
    config = tiny_configs.gemma4_assistant(clustered=clustered)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval().requires_grad_(False)
    _fill(model, TinyCase("assistant", "decoder_only", lambda: config, 0.3, 0.25, 0.2, seed))
    if clustered:
        order = torch.randperm(tiny_configs.VOCAB, generator=_generator("clusters", seed))
        model.masked_embedding.token_ordering.copy_(order)
    return model


def source(name: str, batch: int, length: int, seed: int = 0) -> Tensor:
    """What transformers' encoder of encoder-decoder ``name`` takes, without padding.

    Returns: ids int64[B, E]; sound float32[B, N], or features float32[B, F, M] of it, that give ``length`` positions;
    for Whisper features float32[B, mel bins, mel frames] (``length`` unused).
    """
    if name in HEARS_SOUND:
        return torch.cat([stock_input(name, sound_N) for sound_N in sound(name, batch, length, seed)])
    if CASES[name].kind == "speech_seq2seq":
        shape = (batch, tiny_configs.MEL_BINS, tiny_configs.MEL_FRAMES)
        return torch.randn(shape, generator=_generator("features", seed))
    return tokens(batch, length, seed)


def sound(name: str, batch: int, length: int, seed: int = 0) -> Tensor:
    """Sound float32[B, N] that gives the encoder of ``name`` ``length`` positions."""
    positions = SOUND[name]
    samples = positions.window + (length - 1) * positions.stride + 37 * length % positions.stride
    samples = min(samples, positions.most_samples(length))
    return torch.randn((batch, samples), generator=_generator("sound", seed))


def stock_input(name: str, sound_N: Tensor) -> Tensor:
    """What transformers gives the encoder of ``name`` for one row of sound: float32[1, N] or float32[1, F, M]."""
    family = FAMILIES[CASES[name].config().model_type]
    assert family.sound is not None
    return hearing.stock_input(CASES[name].config(), family.sound, sound_N)


def extractor() -> WhisperFeatureExtractor:
    """The tiny speech model's: one second of 16,000 samples, 40 frames that overlap by a fifth, 16 mel bins."""
    return WhisperFeatureExtractor(
        feature_size=tiny_configs.MEL_BINS,
        sampling_rate=16_000,
        chunk_length=1,
        hop_length=16_000 // tiny_configs.MEL_FRAMES,
        n_fft=500,
    )


def tokens(batch: int, length: int, seed: int = 0) -> Tensor:
    """Random ids int64[B, T] that are no family's special token."""
    low, high = 3, tiny_configs.VOCAB - 4
    return torch.randint(low, high, (batch, length), generator=_generator("tokens", seed))


def _generator(label: str, seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(zlib.crc32(f"{label}/{seed}".encode()))


@torch.no_grad()
def _fill(model: PreTrainedModel, case: TinyCase) -> None:
    """Draw every parameter; vectors (norms, biases) move away from their neutral value instead."""
    embeddings = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    for name, parameter in model.named_parameters():
        if _is_sinusoid(model, name):
            continue
        noise = torch.randn(parameter.shape, generator=_generator(f"{case.name}.{name}", case.seed))
        if name.endswith((".sinks", "router.bias")):  # transformers draws them
            parameter.copy_(noise)
        elif parameter.dim() == 1:
            parameter.add_(0.1 * noise)
        elif "relative_attention_bias" in name:
            parameter.copy_(noise)
        elif id(parameter) in embeddings:
            parameter.copy_(noise * case.embedding_std)
        else:
            is_score = name.split(".")[-2] in SCORE_MATRICES
            parameter.copy_(noise * (case.score_std if is_score else case.weight_std))
    for name, buffer in model.named_buffers():
        if name.endswith("final_logits_bias"):
            noise = torch.randn(buffer.shape, generator=_generator(f"{case.name}.{name}", case.seed))
            buffer.copy_(0.5 * noise)
        elif name.endswith("layer_scalar"):
            buffer.fill_(0.8 if ".0." in name else 1.1)


def _is_sinusoid(model: PreTrainedModel, name: str) -> bool:
    """Whether a parameter is a fixed sinusoidal table (Marian's positions, Whisper's encoder positions)."""
    owner = model.get_submodule(name.rpartition(".")[0])
    fixed_in_whisper = model.config.model_type == "whisper" and "encoder.embed_positions" in name
    return "Sinusoidal" in type(owner).__name__ or fixed_in_whisper


def _generation_config(config: PretrainedConfig) -> GenerationConfig:
    """Greedy settings; for Whisper the token rules that a real checkpoint carries."""
    settings = {
        "bos_token_id": getattr(config, "bos_token_id", None),
        "eos_token_id": config.eos_token_id,
        "pad_token_id": config.pad_token_id,
        "decoder_start_token_id": getattr(config, "decoder_start_token_id", None),
    }
    if config.model_type == "whisper":
        settings |= {
            "suppress_tokens": [1, 2, 7, 61, 63],
            "begin_suppress_tokens": [5, 60],
            "forced_decoder_ids": [[1, 62]],
            "no_timestamps_token_id": 62,
            "prev_sot_token_id": 63,
            "is_multilingual": False,
            "return_timestamps": False,
            "max_length": 128,
        }
    return GenerationConfig(**settings)
