"""How many values a model learns and how they are arranged, seen on a model without memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from exporter.spec.faults import UnsupportedModelError, one_line
from exporter.spec.text_part import drop_image_tower
from exporter.spec.weight_format import WeightSizes, weight_sizes
from runtime_shims.contract.manifest import ModelKind

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel


def auto_class(kind: ModelKind) -> Any:
    """transformers' factory for models of this kind with their output head."""
    import transformers

    return {
        "decoder_only": transformers.AutoModelForCausalLM,
        "text_seq2seq": transformers.AutoModelForSeq2SeqLM,
        "speech_seq2seq": transformers.AutoModelForSpeechSeq2Seq,
    }[kind]


def sizes_of(config: PretrainedConfig, kind: ModelKind, *, head_is_tied: bool) -> WeightSizes:
    """Sizes of the weights of the model that `config` describes, shared ones once.

    With `head_is_tied` False the head counts on its own even where transformers would tie it.

    Raises:
        UnsupportedModelError: the config contradicts itself, so that no model can be made from it.
    """
    import torch

    try:
        with torch.device("meta"):
            model: PreTrainedModel = auto_class(kind).from_config(config)
            drop_image_tower(model)
    except Exception as error:  # model classes raise anything, AssertionError included
        fault = f"no model can be made from this config: {one_line(error)}"
        raise UnsupportedModelError(f"model type {config.model_type}", [fault]) from error
    return weight_sizes(model, head_is_tied=head_is_tied)
