"""The shared programs as models of transformers, beside the stock models they must equal."""

from __future__ import annotations

from exporter.bundle.model_configs import greedy_settings
from exporter.hf_models.decoder_only import FixedCapacityModelForCausalLM
from exporter.hf_models.encoder_decoder import FixedCapacityModelForSeq2SeqLM
from exporter.hf_models.model import FixedCapacityModel
from exporter.hf_models.opening import OpenBundle
from exporter.hf_models.speech import FixedCapacityModelForSpeechSeq2Seq
from tests.parity.programs import Lowered

CLASSES = (FixedCapacityModelForCausalLM, FixedCapacityModelForSeq2SeqLM, FixedCapacityModelForSpeechSeq2Seq)


def as_model(lowered: Lowered) -> FixedCapacityModel:
    """The program under transformers' loop, with the settings that a bundle of it would carry."""
    (made,) = [one for one in CLASSES if one.kind == lowered.bundle.manifest.kind]
    stock = lowered.stock.model
    settings = greedy_settings(stock.generation_config)
    return made(OpenBundle("tiny", lowered.bundle, lowered.session, stock.config, settings, None))
