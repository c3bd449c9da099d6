"""Architecture kind -> the modules of its program's methods."""

from __future__ import annotations

from torch import nn
from transformers import PreTrainedModel

from exporter.spec.capacity_plan import CapacityPlan
from runtime_shims.contract.manifest import Attention

from . import decoder_only, speech_seq2seq, text_seq2seq
from .speech_features import FrontEnd, LogMelFeatures


def build_methods(
    model: PreTrainedModel, plan: CapacityPlan, attention: Attention, front_end: FrontEnd | None = None
) -> dict[str, nn.Module]:
    """Method name -> module; those of the model share one root: parameters and caches carry the same names in each.

    A front end is a method of its own, `features`, which shares nothing with the others.
    """
    builders = {
        "decoder_only": decoder_only.build,
        "text_seq2seq": text_seq2seq.build,
        "speech_seq2seq": speech_seq2seq.build,
    }
    methods = builders[plan.kind](model, plan, attention)
    return methods if front_end is None else {"features": LogMelFeatures(front_end), **methods}
