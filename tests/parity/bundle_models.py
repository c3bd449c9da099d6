"""The shared programs as models of transformers, beside the stock models they must equal.

Shape legend: B rows, T tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor

from exporter.bundle.model_configs import greedy_settings
from exporter.hf_models.decoder_only import FixedCapacityModelForCausalLM
from exporter.hf_models.encoder_decoder import FixedCapacityModelForSeq2SeqLM
from exporter.hf_models.model import FixedCapacityModel
from exporter.hf_models.opening import OpenBundle
from exporter.hf_models.speech import FixedCapacityModelForSpeechSeq2Seq
from tests.parity.programs import Lowered
from tests.support.tiny_models import tokens

PAD = 0
LENGTHS = (5, 2, 9, 1)
CLASSES = (FixedCapacityModelForCausalLM, FixedCapacityModelForSeq2SeqLM, FixedCapacityModelForSpeechSeq2Seq)


def as_model(lowered: Lowered) -> FixedCapacityModel:
    """The program under transformers' loop, with the settings that a bundle of it would carry."""
    (made,) = [one for one in CLASSES if one.kind == lowered.bundle.manifest.kind]
    stock = lowered.stock.model
    settings = greedy_settings(stock.generation_config)
    return made.of_bundle(OpenBundle("tiny", lowered.bundle, lowered.session, stock.config, settings, None))


def padded(lengths: tuple[int, ...], is_left: bool, seed: int = 0) -> dict[str, Tensor]:
    """Random ids int64 [B, T] with padding on one side, and the mask that says so."""
    ids_BT = tokens(len(lengths), max(lengths), seed)
    places_T = torch.arange(max(lengths))
    lengths_B1 = torch.tensor(lengths)[:, None]
    mask_BT = places_T >= max(lengths) - lengths_B1 if is_left else places_T < lengths_B1
    return {"input_ids": torch.where(mask_BT, ids_BT, PAD), "attention_mask": mask_BT.long()}


def inputs_of(lowered: Lowered, lengths: tuple[int, ...] = LENGTHS) -> dict[str, Tensor]:
    """What `generate` takes for the kind of the program."""
    return padded(lengths, is_left=lowered.bundle.manifest.kind == "decoder_only")
