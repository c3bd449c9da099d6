"""The text model inside a checkpoint that also takes images or sound: it is exported on its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PretrainedConfig

COMPOSITES = ("gemma3", "gemma3n", "gemma4", "gemma4_unified")
"""Model types whose text model attends to text alone as the whole model does."""
_TEXT_NAMES = {
    r"^model\.language_model\.": "model.",
    r"^language_model\.model\.": "model.",  # as older checkpoints have it
    r"^language_model\.lm_head\.": "lm_head.",
}


def text_part(config: PretrainedConfig) -> PretrainedConfig:
    """The config of the text model of a composite; any other config as it is."""
    return config.get_text_config(decoder=True) if config.model_type in COMPOSITES else config


def text_weights() -> dict[str, Any]:
    """Arguments of `from_pretrained` that read the text model's weights from a composite's files."""
    return {"key_mapping": dict(_TEXT_NAMES)}


def without_other_parts(report: dict[str, Any]) -> dict[str, Any]:
    """A loading report without the weights that belong to a composite's other inputs."""
    of_text = [key for key in report["unexpected_keys"] if key.startswith(("model.layers.", "lm_head."))]
    return report | {"unexpected_keys": of_text}
