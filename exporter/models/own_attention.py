"""Which model types attend in code of their own, what stands for those modules, and how their bias falls."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn
from transformers import PreTrainedModel

from exporter.cache.attention_binding import ATTENTION_NAME
from exporter.weights.replacement import replace_modules

from . import bloom, falcon, gpt_neo

StandIns = Callable[[PreTrainedModel], dict[int, nn.Module]]
Slopes = Callable[[PreTrainedModel], Tensor]

_STAND_INS: dict[str, StandIns] = {
    "falcon": falcon.stand_ins,
    "bloom": bloom.stand_ins,
    "gpt_neo": gpt_neo.stand_ins,
}
_SLOPES: dict[str, Slopes] = {"bloom": bloom.slopes}


def replace_own_attention(model: PreTrainedModel) -> None:
    """Put stand-ins that ask the operator where `model` attends in code of its own; other models stay as they are.

    The config then names the operator, for which transformers makes no masks. `set_attn_implementation` would refuse:
    it looks for the interface in the source of the model's own file.
    """
    stand_ins = _STAND_INS.get(model.config.model_type)
    if stand_ins is not None:
        replace_modules(model, stand_ins(model))
        model.config._attn_implementation = ATTENTION_NAME


def alibi_slopes(model: PreTrainedModel) -> Tensor | None:
    """float32 `[H]`: what a score loses for each position between query and key; None where it loses nothing."""
    slopes = _SLOPES.get(model.config.model_type)
    return None if slopes is None else slopes(model)
