"""Architecture kind -> the modules of its program's methods."""

from __future__ import annotations

from torch import nn
from transformers import PreTrainedModel

from exporter.spec.capacity_plan import CapacityPlan
from runtime_shims.contract.manifest import Attention

from . import decoder_only, speech_seq2seq, text_seq2seq


def build_methods(model: PreTrainedModel, plan: CapacityPlan, attention: Attention) -> dict[str, nn.Module]:
    """Method name -> module; all share one root, so parameters and caches carry the same names in each."""
    builders = {
        "decoder_only": decoder_only.build,
        "text_seq2seq": text_seq2seq.build,
        "speech_seq2seq": speech_seq2seq.build,
    }
    return builders[plan.kind](model, plan, attention)
