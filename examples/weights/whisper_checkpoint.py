"""Turn a Whisper model stored by CTranslate2 into an ordinary Hugging Face checkpoint (fp32).

CTranslate2 fuses query, key and value of self-attention into ``linear_0`` and key and value of
cross-attention into ``linear_1``; both are split by rows. The key projection of Whisper has no bias, so the
fused bias is zero there. Geometry comes from the shapes, token rules from the files beside ``model.bin``.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from transformers import (
    GenerationConfig,
    WhisperConfig,
    WhisperFeatureExtractor,
    WhisperForConditionalGeneration,
)

from weights.ctranslate2_container import Container, read_container

StateDict = dict[str, torch.Tensor]


@dataclass(frozen=True)
class WhisperTokens:
    """Ids of the special tokens, as the tokenizer file names them."""

    end_of_text: int
    start_of_transcript: int
    start_of_previous: int
    no_timestamps: int

    @classmethod
    def read(cls, tokenizer_json: Path) -> WhisperTokens:
        """Read the ids from the added tokens of ``tokenizer.json``."""
        added = json.loads(tokenizer_json.read_text(encoding="utf-8"))["added_tokens"]
        ids = {token["content"]: token["id"] for token in added}
        return cls(
            end_of_text=ids["<|endoftext|>"],
            start_of_transcript=ids["<|startoftranscript|>"],
            start_of_previous=ids["<|startofprev|>"],
            no_timestamps=ids["<|notimestamps|>"],
        )


def convert_whisper(source: Path, target: Path) -> None:
    """Write a checkpoint directory ``target`` from the CTranslate2 directory ``source``.

    ``source`` holds ``model.bin``, ``config.json`` (suppressed tokens) and ``tokenizer.json``. Only
    English-only models are supported: they need one forced token, ``<|notimestamps|>``.
    """
    container = read_container(source / "model.bin")
    if container.spec != "WhisperSpec":
        raise ValueError(f"{source} holds a {container.spec}, not a WhisperSpec")
    tokens = WhisperTokens.read(source / "tokenizer.json")
    config = _config(container, tokens)
    model = WhisperForConditionalGeneration(config)
    missing, unexpected = model.load_state_dict(_state_dict(container), strict=False)
    if unexpected or set(missing) - {"proj_out.weight"}:  # the output projection is tied to the embedding
        raise ValueError(f"weights do not fit: missing {missing}, unexpected {unexpected}")
    model.tie_weights()
    model.generation_config = _generation_config(json.loads((source / "config.json").read_text()), tokens)
    model.save_pretrained(target)
    WhisperFeatureExtractor(feature_size=config.num_mel_bins).save_pretrained(target)
    _write_tokenizer(source / "tokenizer.json", target)


def _config(container: Container, tokens: WhisperTokens) -> WhisperConfig:
    variables = container.variables
    width, mels, _ = variables["encoder/conv1/weight"].shape
    return WhisperConfig(
        vocab_size=variables["decoder/embeddings/weight"].shape[0],
        num_mel_bins=mels,
        d_model=width,
        encoder_layers=container.count_layers("encoder"),
        decoder_layers=container.count_layers("decoder"),
        encoder_attention_heads=container.scalar("encoder/num_heads"),
        decoder_attention_heads=container.scalar("decoder/num_heads"),
        encoder_ffn_dim=variables["encoder/layer_0/ffn/linear_0/weight"].shape[0],
        decoder_ffn_dim=variables["decoder/layer_0/ffn/linear_0/weight"].shape[0],
        max_source_positions=variables["encoder/position_encodings/encodings"].shape[0],
        max_target_positions=variables["decoder/position_encodings/encodings"].shape[0],
        bos_token_id=tokens.start_of_transcript,
        eos_token_id=tokens.end_of_text,
        pad_token_id=tokens.end_of_text,
        decoder_start_token_id=tokens.start_of_transcript,
    )


def _generation_config(rules: dict[str, list[int]], tokens: WhisperTokens) -> GenerationConfig:
    """The settings that ``generate`` of an English-only Whisper needs, under their usual names."""
    return GenerationConfig(
        bos_token_id=tokens.start_of_transcript,
        decoder_start_token_id=tokens.start_of_transcript,
        eos_token_id=tokens.end_of_text,
        pad_token_id=tokens.end_of_text,
        suppress_tokens=rules["suppress_ids"],
        begin_suppress_tokens=rules["suppress_ids_begin"],
        forced_decoder_ids=[[1, tokens.no_timestamps]],
        no_timestamps_token_id=tokens.no_timestamps,
        prev_sot_token_id=tokens.start_of_previous,
        alignment_heads=rules["alignment_heads"],
        max_initial_timestamp_index=50,
        is_multilingual=False,
        return_timestamps=False,
        max_length=448,
    )


def _state_dict(container: Container) -> StateDict:
    """Every tensor of the checkpoint but the tied output projection, in fp32."""
    variables = container.variables
    state = {
        "model.decoder.embed_tokens.weight": _tensor(variables["decoder/embeddings/weight"]),
        **{
            f"model.encoder.{conv}.{part}": _tensor(variables[f"encoder/{conv}/{part}"])
            for conv in ("conv1", "conv2")
            for part in ("weight", "bias")
        },
    }
    for stack in ("encoder", "decoder"):
        name = f"{stack}/position_encodings/encodings"
        state[f"model.{stack}.embed_positions.weight"] = _tensor(variables[name])
        state |= _norm(container, f"{stack}/layer_norm", f"model.{stack}.layer_norm")
        for index in range(container.count_layers(stack)):
            state |= _layer(container, f"{stack}/layer_{index}", f"model.{stack}.layers.{index}")
    return state


def _layer(container: Container, source: str, target: str) -> StateDict:
    state = _norm(container, f"{source}/self_attention/layer_norm", f"{target}.self_attn_layer_norm")
    projections = [f"{target}.self_attn.{kind}_proj" for kind in "qkv"]
    state |= _linear(container, f"{source}/self_attention/linear_0", projections)
    state |= _linear(container, f"{source}/self_attention/linear_1", [f"{target}.self_attn.out_proj"])
    state |= _norm(container, f"{source}/ffn/layer_norm", f"{target}.final_layer_norm")
    state |= _linear(container, f"{source}/ffn/linear_0", [f"{target}.fc1"])
    state |= _linear(container, f"{source}/ffn/linear_1", [f"{target}.fc2"])
    if f"{source}/attention/linear_0/weight" in container.variables:
        cross, attention = f"{source}/attention", f"{target}.encoder_attn"
        state |= _norm(container, f"{cross}/layer_norm", f"{attention}_layer_norm")
        state |= _linear(container, f"{cross}/linear_0", [f"{attention}.q_proj"])
        state |= _linear(container, f"{cross}/linear_1", [f"{attention}.k_proj", f"{attention}.v_proj"])
        state |= _linear(container, f"{cross}/linear_2", [f"{attention}.out_proj"])
    return state


def _linear(container: Container, source: str, targets: list[str]) -> StateDict:
    """Split one stored linear by rows into ``targets``; a key projection keeps no bias."""
    state: StateDict = {}
    weights = np.split(container.variables[f"{source}/weight"], len(targets))
    biases = np.split(container.variables[f"{source}/bias"], len(targets))
    for target, weight, bias in zip(targets, weights, biases, strict=True):
        state[f"{target}.weight"] = _tensor(weight)
        if not target.endswith("k_proj"):
            state[f"{target}.bias"] = _tensor(bias)
        elif np.any(bias):
            raise ValueError(f"{source}: the key projection has a bias, which Whisper's has not")
    return state


def _norm(container: Container, source: str, target: str) -> StateDict:
    return {
        f"{target}.weight": _tensor(container.variables[f"{source}/gamma"]),
        f"{target}.bias": _tensor(container.variables[f"{source}/beta"]),
    }


def _tensor(array: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(array.astype(np.float32))


def _write_tokenizer(tokenizer_json: Path, target: Path) -> None:
    shutil.copyfile(tokenizer_json, target / "tokenizer.json")
    end_of_text = "<|endoftext|>"
    settings = {
        "tokenizer_class": "WhisperTokenizer",
        "model_max_length": 1024,
        "bos_token": end_of_text,
        "eos_token": end_of_text,
        "pad_token": end_of_text,
        "unk_token": end_of_text,
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
    }
    (target / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
