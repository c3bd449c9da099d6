"""Speech encoder-decoders: Whisper."""

from __future__ import annotations

from torch import nn
from transformers import PreTrainedModel

from exporter.spec.capacity_plan import CapacityPlan
from runtime_shims.contract.manifest import Attention

from .encoder_decoder import Decode, Encode
from .fixed_capacity_model import FixedCapacityModel
from .text_seq2seq import bind_decoder, bind_encoder


def build(model: PreTrainedModel, plan: CapacityPlan, attention: Attention) -> dict[str, nn.Module]:
    """The methods of a speech program: `encode(input_features[b, mels, frames], enc_lengths[b])` and `decode`."""
    root = FixedCapacityModel(model, plan, attention)
    bind_encoder(root)
    bind_decoder(root)
    return {"encode": Encode(root, "input_features"), "decode": Decode(root)}
