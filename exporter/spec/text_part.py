"""The text model inside a checkpoint that also takes images or sound: it is exported on its own.

Most nest one that stands alone. T5Gemma 2 has images in its encoder: its model is made whole, with an image tower of no
layers, and the tower is taken out.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

NESTS_TEXT = ("gemma3", "gemma3n", "gemma4", "gemma4_unified")
"""Model types whose text model reads text as the whole model does: the tokens of images and sound in it excepted, for
which Gemma 3n has tables of their own."""
TOWER_IN_ENCODER = ("t5gemma2",)
COMPOSITES = (*NESTS_TEXT, *TOWER_IN_ENCODER)
_TOWER = ("vision_tower", "multi_modal_projector")
_TEXT_NAMES = {
    r"^model\.language_model\.": "model.",
    r"^language_model\.model\.": "model.",  # as older checkpoints have it
    r"^language_model\.lm_head\.": "lm_head.",
}

_OF_TEXT = ("model.layers.", "lm_head.", "model.encoder.", "model.decoder.")
_OF_TOWER = tuple(f"model.encoder.{name}." for name in _TOWER)


def text_part(config: PretrainedConfig) -> PretrainedConfig:
    """The config of the text model of a composite; any other config as it is."""
    if config.model_type in TOWER_IN_ENCODER:
        config = copy.deepcopy(config)
        config.encoder.vision_config.num_hidden_layers = 0
        return config
    return config.get_text_config(decoder=True) if config.model_type in NESTS_TEXT else config


def drop_image_tower(model: PreTrainedModel) -> None:
    """Take out of an encoder what makes states of images; no text runs through it."""
    if model.config.model_type in TOWER_IN_ENCODER:
        for name in _TOWER:
            setattr(model.get_encoder(), name, None)


def text_weights(config: PretrainedConfig) -> dict[str, Any]:
    """Arguments of `from_pretrained` that read the text model's weights from the files of the whole."""
    return {"key_mapping": dict(_TEXT_NAMES)} if config.model_type in NESTS_TEXT else {}


def without_other_parts(report: dict[str, Any]) -> dict[str, Any]:
    """A loading report without the weights that belong to a composite's other inputs."""
    of_text = [key for key in report["unexpected_keys"] if key.startswith(_OF_TEXT) and not key.startswith(_OF_TOWER)]
    return report | {"unexpected_keys": of_text}
