"""Which limits a model allows: the one place where a recipe's numbers are held against the model's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exporter.spec.weight_format import DEFAULT_GROUP, is_torchaos
from runtime_shims.contract.manifest import ResolvedRecipe

if TYPE_CHECKING:
    from exporter.spec.model_spec import ModelSpec


def limit_faults(spec: ModelSpec, recipe: ResolvedRecipe) -> list[str]:
    """Every limit of `recipe` that `spec` does not allow, each with the option and the allowed value."""
    faults = []
    if recipe.max_batch < 1:
        faults.append(f"--max-batch {recipe.max_batch} serves no row; use at least 1")
    if recipe.max_dec < 1:
        faults.append(f"--max-dec {recipe.max_dec} holds no position; use at least 1")
    if spec.max_positions is not None and recipe.max_dec > spec.max_positions:
        faults.append(
            f"--max-dec {recipe.max_dec} exceeds the model's {spec.max_positions} decoder positions; "
            f"use at most {spec.max_positions}"
        )
    if recipe.prefill_chunk < 1 or recipe.prefill_chunk > recipe.max_dec:
        faults.append(
            f"--prefill-chunk {recipe.prefill_chunk} is not allowed with --max-dec {recipe.max_dec}; "
            f"use 1 to {recipe.max_dec}"
        )
    if recipe.max_draft >= recipe.max_dec:
        faults.append(
            f"--max-draft {recipe.max_draft} does not fit --max-dec {recipe.max_dec}; "
            f"use at most {max(recipe.max_dec - 1, 0)}"
        )
    if spec.has_experts and (recipe.quantize != "none" or recipe.dtype != "float32"):
        faults.append("the weights of experts are stored in float32 alone; use --quantize none and --dtype float32")
    return faults + _width_faults(spec, recipe) + _sound_faults(spec, recipe) + _encoder_faults(spec, recipe.max_enc)


def _width_faults(spec: ModelSpec, recipe: ResolvedRecipe) -> list[str]:
    """torchao's 4 bits, those of core operators, come in whole groups; ours and ONNX Runtime's fill the last one up."""
    if recipe.quantize != "8da4w" or not is_torchaos(recipe):
        return []
    group = recipe.group_size or DEFAULT_GROUP
    broken = sorted({width for _, width in spec.weights.linear if width % group})
    if not broken:
        return []
    widths = ", ".join(map(str, broken))
    return [
        f"--quantize 8da4w with --attention portable takes widths that are multiples of --group-size {group}, the "
        f"model has {widths}; use --attention fused, --quantize 8da8w or another --group-size"
    ]


def _sound_faults(spec: ModelSpec, recipe: ResolvedRecipe) -> list[str]:
    """XNNPACK holds one size that varies in what it reshapes; quantized products over rows of sound have two."""
    sound = None if spec.encoder is None else spec.encoder.sound
    if sound is None or sound.bands is not None or recipe.max_batch == 1 or not is_torchaos(recipe):
        return []
    return [
        f"--quantize {recipe.quantize} with --attention portable takes one row of sound, got --max-batch "
        f"{recipe.max_batch}; use --attention fused, --max-batch 1 or --quantize none"
    ]


def _encoder_faults(spec: ModelSpec, max_enc: int | None) -> list[str]:
    encoder = spec.encoder
    if encoder is None:
        if max_enc is None:
            return []
        return [f"--max-enc {max_enc} has no meaning for {spec.model_type}: it has no encoder; leave it out"]
    if max_enc is None:
        return ["--max-enc is missing for a model with an encoder"]
    if encoder.fixed_length is not None and max_enc != encoder.fixed_length:
        return [
            f"--max-enc {max_enc} is not possible: the {spec.model_type} encoder always gives "
            f"{encoder.fixed_length} output positions; use {encoder.fixed_length} or leave it out"
        ]
    if max_enc < 1:
        return [f"--max-enc {max_enc} holds no position; use at least 1"]
    if encoder.max_positions is not None and max_enc > encoder.max_positions:
        return [
            f"--max-enc {max_enc} exceeds the model's {encoder.max_positions} encoder positions; "
            f"use at most {encoder.max_positions}"
        ]
    return []
