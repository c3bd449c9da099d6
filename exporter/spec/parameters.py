"""How many values a model learns, counted on a model without memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from exporter.spec.faults import UnsupportedModelError, one_line
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


def count_parameters(config: PretrainedConfig, kind: ModelKind, *, head_is_tied: bool) -> int:
    """Learned values of the model that `config` describes, shared ones once.

    With `head_is_tied` False the head counts on its own even where transformers would tie it.

    Raises:
        UnsupportedModelError: the config contradicts itself, so that no model can be made from it.
    """
    import torch

    try:
        with torch.device("meta"):
            model: PreTrainedModel = auto_class(kind).from_config(config)
    except Exception as error:  # model classes raise anything, AssertionError included
        fault = f"no model can be made from this config: {one_line(error)}"
        raise UnsupportedModelError(f"model type {config.model_type}", [fault]) from error
    count: int = sum(parameter.numel() for parameter in model.parameters())
    head = model.get_output_embeddings().weight
    if not head_is_tied and head is model.get_input_embeddings().weight:
        count += head.numel()
    return count
