"""The model whose answers a bundle must repeat: quantized or in half precision, where the recipe says so."""

from __future__ import annotations

from transformers import PreTrainedModel

from exporter.spec.memory_budget import machine_memory_bytes
from exporter.spec.model_source import ModelSource
from exporter.spec.open_model import open_model
from exporter.spec.progress import Progress, SilentProgress
from exporter.spec.weight_format import WeightFormat, is_torchaos
from exporter.weights.half import round_to_half
from exporter.weights.quantize import quantize_model
from exporter.weights.torchao_form import quantize_for_xnnpack
from runtime_shims.contract.manifest import ResolvedRecipe

_PART_FOR_FLOATS = 4
"""A model whose float32 weights take less than this part of the machine's memory answers with floats, not integers."""


def load_stored(source: ModelSource, recipe: ResolvedRecipe, progress: Progress) -> PreTrainedModel:
    """The model in evaluation mode; quantized ones are never in memory as floats if those would be a large part of it.

    Raises:
        ModelSourceError: weights are missing, left over or of another shape; lists their names.
        ExportFailed: an embedding does more than look up and scale.
    """
    weights = WeightFormat.of(recipe)
    if not weights.is_quantized or is_torchaos(recipe):
        return _as_stored(source.load_model(progress), recipe, progress)
    opened = open_model(source, progress)
    progress.stage("quantizing weights")
    quantize_model(opened.model, weights, opened.rows, keep_floats=_floats_fit(opened.model))
    opened.read_rest()
    return opened.model


def load_stored_assistant(source: ModelSource, recipe: ResolvedRecipe) -> PreTrainedModel:
    """What drafts in the same program, in the model's precision."""
    return _as_stored(source.load_assistant(), recipe, SilentProgress())


def _as_stored(model: PreTrainedModel, recipe: ResolvedRecipe, progress: Progress) -> PreTrainedModel:
    weights = WeightFormat.of(recipe)
    if weights.is_quantized:
        progress.stage("quantizing weights")
        (quantize_for_xnnpack if is_torchaos(recipe) else quantize_model)(model, weights)
    elif recipe.dtype == "float16":
        progress.stage("rounding weights")
        round_to_half(model)
    return model


def _floats_fit(model: PreTrainedModel) -> bool:
    memory = machine_memory_bytes()
    needed = 4 * sum(parameter.numel() for parameter in model.parameters())
    return memory is not None and needed * _PART_FOR_FLOATS < memory
