"""Which model types attend in code of their own, and what stands for those modules."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn
from transformers import PreTrainedModel

from exporter.cache.attention_binding import ATTENTION_NAME
from exporter.weights.replacement import replace_modules

from . import falcon

StandIns = Callable[[PreTrainedModel], dict[int, nn.Module]]

_STAND_INS: dict[str, StandIns] = {"falcon": falcon.stand_ins}


def replace_own_attention(model: PreTrainedModel) -> None:
    """Put stand-ins that ask the operator where `model` attends in code of its own; other models stay as they are.

    The config then names the operator, for which transformers makes no masks. `set_attn_implementation` would refuse:
    it looks for the interface in the source of the model's own file.
    """
    stand_ins = _STAND_INS.get(model.config.model_type)
    if stand_ins is not None:
        replace_modules(model, stand_ins(model))
        model.config._attn_implementation = ATTENTION_NAME
