"""Architecture kind -> the modules of its program's methods."""

from __future__ import annotations

from torch import nn
from transformers import PreTrainedModel

from exporter.spec.capacity_plan import CapacityPlan
from runtime_shims.contract.manifest import Attention

from . import decoder_only, speech_seq2seq, text_seq2seq
from .speech_features import FrontEnd, LogMelFeatures


def build_methods(
    model: PreTrainedModel,
    plan: CapacityPlan,
    attention: Attention,
    front_end: FrontEnd | None = None,
    assistant: PreTrainedModel | None = None,
) -> dict[str, nn.Module]:
    """Method name -> module; those of the model share one root: parameters and caches carry the same names in each.

    A front end is a method of its own, `features`, which shares nothing with the others.
    """
    if plan.kind == "decoder_only":
        return decoder_only.build(model, plan, attention, assistant)
    build = text_seq2seq.build if plan.kind == "text_seq2seq" else speech_seq2seq.build
    methods = build(model, plan, attention)
    return methods if front_end is None else {"features": LogMelFeatures(front_end), **methods}
