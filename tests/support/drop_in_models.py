"""Tiny models that the exporter has no family for, and that drop-in caches serve all the same."""

from __future__ import annotations

import zlib
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import (
    DeepseekV3Config,
    Gemma4AssistantConfig,
    Gemma4AssistantForCausalLM,
    Gemma4ForCausalLM,
    Gemma4TextConfig,
    MellumConfig,
    MellumForCausalLM,
    PretrainedConfig,
    PreTrainedModel,
)
from transformers.modeling_layers import MtpModel

from tests.support.tiny_configs import DECODER_SHAPE, FULL, HIDDEN, SLIDING, WINDOW

_MTP_NAMES = {
    "eh_proj.": "fc.",
    "enorm.": "pre_fc_norm_embedding.",
    "hnorm.": "pre_fc_norm_hidden.",
    "post_norm.": "norm.",
    "mtp_block.": "layers.0.",
}
"""Names in Mellum's checkpoints of what the model calls otherwise."""


def gemma4() -> PreTrainedModel:
    """Six layers, the last two of which read the keys and values of the third and the fourth; two head sizes."""
    config = Gemma4TextConfig(
        **DECODER_SHAPE,
        num_hidden_layers=6,
        head_dim=8,
        global_head_dim=16,
        sliding_window=WINDOW,
        layer_types=[SLIDING, FULL, SLIDING, FULL, SLIDING, FULL],
        num_kv_shared_layers=2,
        hidden_size_per_layer_input=4,
        vocab_size_per_layer_input=64,
    )
    return seeded(Gemma4ForCausalLM(config))


def gemma4_assistant() -> PreTrainedModel:
    """A drafter without keys and values of its own: it reads those of `gemma4`."""
    text = Gemma4TextConfig(
        **DECODER_SHAPE,
        num_hidden_layers=2,
        head_dim=8,
        global_head_dim=16,
        sliding_window=WINDOW,
        layer_types=[SLIDING, FULL],
        num_kv_shared_layers=2,
        hidden_size_per_layer_input=0,
        vocab_size_per_layer_input=0,
    )
    drafter = Gemma4AssistantForCausalLM(Gemma4AssistantConfig(text_config=text, backbone_hidden_size=HIDDEN))
    drafter.generation_config.num_assistant_tokens = 3
    return seeded(drafter)


def mellum_with_mtp(directory: Path) -> PreTrainedModel:
    """Sliding and full layers, and a head that predicts one token more, which `generate` reads from `directory`."""
    config = MellumConfig(
        **DECODER_SHAPE,
        num_hidden_layers=3,
        head_dim=12,
        sliding_window=WINDOW,
        layer_types=[SLIDING, FULL, SLIDING],
        mlp_layer_types=["dense"] * 3,
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=16,
        num_nextn_predict_layers=1,
        mtp_mlp_layer_types=["dense"],
    )
    model = seeded(MellumForCausalLM(config))
    model.save_pretrained(directory)
    head = seeded(MtpModel(model, 1))
    weights = load_file(directory / "model.safetensors")
    for name, weight in head.state_dict().items():
        if name.startswith("layers.0."):
            own = name.removeprefix("layers.0.")
            part = next(part for part in _MTP_NAMES if own.startswith(part))
            weights["mtp." + _MTP_NAMES[part] + own.removeprefix(part)] = weight.clone()
    save_file(weights, directory / "model.safetensors", {"format": "pt"})
    return MellumForCausalLM.from_pretrained(directory).eval().requires_grad_(False)


def deepseek_config() -> PretrainedConfig:
    """Latent attention: what is cached is neither keys nor values."""
    return DeepseekV3Config(**(DECODER_SHAPE | {"num_key_value_heads": 4}), num_hidden_layers=1, kv_lora_rank=16)


@torch.no_grad()
def seeded(model: PreTrainedModel) -> PreTrainedModel:
    """Draw every matrix by its name, large enough for logits to differ."""
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1:
            generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))
    return model.eval().requires_grad_(False)


@torch.no_grad()
def disturbed(model: PreTrainedModel, like: PreTrainedModel) -> PreTrainedModel:
    """`model` with the weights of `like`, a little off: an assistant that is often right and often wrong."""
    generator = torch.Generator().manual_seed(1)
    model.load_state_dict(like.state_dict())
    model.generation_config.num_assistant_tokens = 5
    for parameter in model.parameters():
        if parameter.dim() > 1:
            parameter.add_(0.02 * torch.randn(parameter.shape, generator=generator))
    return model
