"""Every fact of a config that the exporter does not support, found in one pass."""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING, Any

from exporter.spec.families import (
    FAMILIES,
    KNOWN_OBSTACLES,
    Family,
    decoder_config,
    encoder_config,
    nests_its_stacks,
    own_layer_types,
)
from exporter.spec.faults import one_line
from exporter.spec.own_attention_checks import own_attention_faults
from runtime_shims.contract.formatting import format_ranges

if TYPE_CHECKING:
    from transformers import PretrainedConfig

SUPPORTED_LAYER_TYPES = ("full_attention", "sliding_attention")
SHARED_LAYER_TYPE = "dummy"
"""What transformers calls a layer that keeps no keys and values of its own."""
# Those whose frequencies do not change while a sequence grows ("dynamic" and "longrope" do).
SUPPORTED_ROPE_TYPES = ("default", "linear", "llama3", "yarn", "proportional")
_HEARING_HEADS = (
    "encoder_num_attention_heads",
    "encoder_num_key_value_heads",
    "decoder_num_attention_heads",
    "decoder_num_key_value_heads",
)
_HEARING_NUMBERS = ("encoder_num_hidden_layers", *_HEARING_HEADS)
_INNER_MODALITIES = ("vision_config", "audio_config", "image_config", "video_config")


def config_faults(config: PretrainedConfig) -> list[str]:
    """Everything missing or unsupported in `config`; empty when the model can be exported."""
    family = FAMILIES.get(config.model_type)
    faults = _type_faults(config) if family is None else _family_faults(config, family)
    checks = (
        _modality_faults,
        _head_faults,
        _hearing_faults,
        _rope_faults,
        _layer_faults,
        _stream_faults,
        _feature_faults,
        own_attention_faults,
        _quantization_faults,
    )
    for check in checks:
        try:
            faults += check(config)
        except ValueError as error:  # what transformers computes of a config's values may refuse them
            faults.append(f"transformers refuses the config: {one_line(error)}")
    return list(dict.fromkeys(faults))


def _type_faults(config: PretrainedConfig) -> list[str]:
    obstacle = KNOWN_OBSTACLES.get(config.model_type)
    reason = f" ({obstacle})" if obstacle else ""
    if config.is_encoder_decoder:
        return [f"encoder-decoder not supported{reason}; supported types: {', '.join(FAMILIES)}"]
    return [f"not supported{reason}; supported types: {', '.join(FAMILIES)}"]


def _family_faults(config: PretrainedConfig, family: Family) -> list[str]:
    faults = []
    has_encoder = family.kind != "decoder_only"
    if bool(config.is_encoder_decoder) != has_encoder:
        faults.append(f"is_encoder_decoder is {config.is_encoder_decoder}, expected {has_encoder}")
    owners = _stacks(config) if nests_its_stacks(config) else (config,)
    for owner, name in product(owners, dict.fromkeys(_needed_numbers(config, family))):
        value = getattr(owner, name, None)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            faults.append(f"{name} is {value}, expected a positive whole number")
    return faults


def _stacks(config: PretrainedConfig) -> tuple[PretrainedConfig, ...]:
    """The configs of encoder and decoder where a config nests them, else that of what writes tokens."""
    decoder = decoder_config(config)
    return (encoder_config(config), decoder) if nests_its_stacks(config) else (decoder,)


def _needed_numbers(config: PretrainedConfig, family: Family) -> list[str]:
    """Attributes of a config without which there is no plan."""
    has_encoder, sound = family.kind != "decoder_only", family.sound
    needed = ["vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads"]
    places = (family.decoder_positions, family.encoder_positions, family.encoder_length, family.decoder_layers)
    needed += [name for name in places if name is not None]
    is_flat = family.encoder_length is None and not family.relative_bias and not nests_its_stacks(config)
    if sound is not None and sound.bands is None:
        needed += list(_HEARING_NUMBERS)
    elif has_encoder and is_flat:
        needed += ["decoder_layers", "decoder_attention_heads"]
    if sound is not None and sound.bands is not None:
        needed.append(sound.bands)
    if family.kind == "speech_seq2seq" and sound is None:
        needed += ["num_mel_bins", "decoder_layers", "decoder_attention_heads"]
    if family.relative_bias:
        needed += ["d_kv", "relative_attention_num_buckets", "relative_attention_max_distance"]
    return needed


def _modality_faults(config: PretrainedConfig) -> list[str]:
    return [
        f"it has a {name.removesuffix('_config')} input, only text and speech encoder-decoders are supported"
        for name in _INNER_MODALITIES
        if getattr(config, name, None) is not None
    ]


def _head_faults(config: PretrainedConfig) -> list[str]:
    """Query heads share key/value heads in groups of one size; soft caps divide by themselves."""
    faults = []
    for stack in _stacks(config):
        heads = getattr(stack, "num_attention_heads", None)
        faults += [
            f"num_key_value_heads is {kv_heads}, expected a divisor of num_attention_heads ({heads})"
            for kv_heads in _kv_heads(stack)
            if isinstance(heads, int) and isinstance(kv_heads, int) and (kv_heads < 1 or heads % kv_heads)
        ]
    for name in ("attn_logit_softcapping", "final_logit_softcapping"):
        cap = getattr(decoder_config(config), name, None)
        if isinstance(cap, int | float) and not (math.isfinite(cap) and cap > 0):
            faults.append(f"{name} is {cap}, expected a positive finite number or none")
    return faults


def _hearing_faults(config: PretrainedConfig) -> list[str]:
    """What an encoder of sound may be, of those that a config can describe."""
    family = FAMILIES.get(config.model_type)
    if family is None or family.sound is None:
        return []
    return _head_count_faults(config) if family.sound.bands is None else _convolution_faults(config)


def _head_count_faults(config: PretrainedConfig) -> list[str]:
    """Moonshine's own code takes one number of heads: the encoder's counts for both stacks, without groups."""
    heads = {name: getattr(config, name, None) for name in _HEARING_HEADS}
    if len(set(heads.values())) == 1:
        return []
    given = ", ".join(f"{name} {value}" for name, value in heads.items())
    return [f"transformers runs it with one number of heads everywhere, got {given}"]


def _convolution_faults(config: PretrainedConfig) -> list[str]:
    """Positions are counted for two convolutions; with even kernels transformers counts fewer than it makes."""
    sizes = list(config.conv_kernel_sizes)
    wanted = {"num_conv_layers": 2, "input_channels": 1}
    found = {name: getattr(config, name) for name in wanted}
    faults = [f"{name} is {found[name]}, expected {value}" for name, value in wanted.items() if found[name] != value]
    if any(not isinstance(size, int) or size % 2 == 0 for size in sizes):
        faults.append(f"conv_kernel_sizes is {sizes}, expected odd numbers")
    if config.conv_channels % 2:
        faults.append(f"conv_channels is {config.conv_channels}, expected an even number: half of them are gates")
    return faults


def _rope_faults(config: PretrainedConfig) -> list[str]:
    """Rotary parameters are one dict, or one dict per layer type."""
    entries: list[dict[str, Any]] = []
    for stack in _stacks(config):
        parameters = getattr(stack, "rope_parameters", None) or {}
        entries += [value for value in parameters.values() if isinstance(value, dict)] or [parameters]
    kinds = {str(entry.get("rope_type", "default")) for entry in entries}
    bases = {entry.get("rope_theta") for entry in entries}
    return [
        f"rope type {kind} is not supported (supported: {', '.join(SUPPORTED_ROPE_TYPES)})"
        for kind in sorted(kinds - set(SUPPORTED_ROPE_TYPES))
    ] + [
        f"rope_theta is {base}, expected a positive finite number"
        for base in bases
        if isinstance(base, int | float) and not (math.isfinite(base) and base > 0)
    ]


def _layer_faults(config: PretrainedConfig) -> list[str]:
    from transformers.cache_utils import get_layer_types_and_kwargs

    text_config = decoder_config(config)
    if not isinstance(getattr(text_config, "num_hidden_layers", None), int):
        return []
    types, arguments = own_layer_types(text_config) or get_layer_types_and_kwargs(text_config)
    faults = [
        f"attention of type {kind} in layers {format_ranges(index for index, name in enumerate(types) if name == kind)}"
        for kind in dict.fromkeys(types)
        if kind not in (*SUPPORTED_LAYER_TYPES, SHARED_LAYER_TYPE)
    ]
    windows = {
        index: argument.get("sliding_window")
        for index, (kind, argument) in enumerate(zip(types, arguments, strict=True))
        if kind == "sliding_attention"
    }
    no_window = [index for index, window in windows.items() if not window]
    if no_window:
        faults.append(f"sliding_window is missing for layers {format_ranges(no_window)}")
    negative = sorted({window for window in windows.values() if window and window < 1})
    return faults + [f"sliding_window is {window}, expected a positive whole number" for window in negative]


def _stream_faults(config: PretrainedConfig) -> list[str]:
    """Gemma 3n: shares of a gate that are cut off, and which of its streams the layers compute with."""
    text_config = decoder_config(config)
    shares = getattr(text_config, "activation_sparsity_pattern", None) or []
    faults = [
        f"activation_sparsity_pattern holds {share}, expected numbers from 0 to below 1"
        for share in dict.fromkeys(shares)
        if not 0 <= share < 1
    ]
    streams, active = getattr(text_config, "altup_num_inputs", None), getattr(text_config, "altup_active_idx", 0)
    per_layer = getattr(text_config, "hidden_size_per_layer_input", None)
    if streams is not None and not per_layer:
        faults.append(f"hidden_size_per_layer_input is {per_layer}, expected a number from 1 on")
    if streams is not None and not 0 <= active < streams:
        faults.append(f"altup_active_idx is {active}, expected a number from 0 to below altup_num_inputs ({streams})")
    return faults


def _feature_faults(config: PretrainedConfig) -> list[str]:
    text_config = decoder_config(config)
    faults = []
    if getattr(text_config, "use_bidirectional_attention", None) not in (None, False, "vision"):  # text is causal
        faults.append("bidirectional attention in the decoder is not supported")
    if getattr(text_config, "add_cross_attention", False) and not config.is_encoder_decoder:
        faults.append("cross-attention without an encoder is not supported")
    if _count(text_config, "num_kv_shared_layers") and getattr(text_config, "kv_sharing_modes", None) is None:
        faults.append("it does not say which layers share keys and values")
    family = FAMILIES.get(config.model_type)
    if has_experts(text_config) and not (family is not None and family.experts):
        faults.append("mixture of experts is not supported")
    return faults


def _quantization_faults(config: PretrainedConfig) -> list[str]:
    quantization: Any = getattr(config, "quantization_config", None)
    if quantization is None:
        return []
    settings = quantization if isinstance(quantization, dict) else quantization.to_dict()
    method = getattr(settings.get("quant_method"), "value", settings.get("quant_method"))
    if method == "gguf":
        return []
    return [f"weights quantized with {method} are not supported; use the original checkpoint or a .gguf file"]


def has_experts(config: PretrainedConfig) -> bool:
    """Whether layers choose among several experts."""
    return max(_count(config, "num_local_experts"), _count(config, "num_experts")) > 1


def _kv_heads(text_config: PretrainedConfig) -> list[Any]:
    """The different numbers of key/value heads of its layers."""
    if not isinstance(getattr(text_config, "num_hidden_layers", None), int):
        return [getattr(text_config, "num_key_value_heads", None)]
    return list(dict.fromkeys(getattr(layer, "num_key_value_heads", None) for layer in text_config.per_layer_config))


def _count(config: PretrainedConfig, attribute: str) -> int:
    value = getattr(config, attribute, None)
    return value if isinstance(value, int) else 0
