"""The model's config and generation settings, as files of the bundle that transformers reads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import GenerationConfig

from exporter.bundle.token_rules import unhonoured_names
from exporter.bundle.writer import CONFIG_NAME, GENERATION_CONFIG_NAME

if TYPE_CHECKING:
    from transformers import PretrainedConfig

_OF_DRAWS = ("temperature", "top_k", "top_p", "min_p", "top_h", "typical_p", "epsilon_cutoff", "eta_cutoff")
_OF_LOADING = ("trust_remote_code", "_from_model_config")


def save_model_configs(directory: Path, config: PretrainedConfig, settings: GenerationConfig) -> None:
    """Write both files. The settings are those that the bundle honours: greedy, and without what it dropped."""
    (directory / CONFIG_NAME).write_text(_dense(config).to_json_string(), encoding="utf-8")
    (directory / GENERATION_CONFIG_NAME).write_text(greedy_settings(settings).to_json_string(), encoding="utf-8")


def greedy_settings(settings: GenerationConfig) -> GenerationConfig:
    """A copy that takes the best token. That it does is written down: pipelines have defaults of their own."""
    dropped = {*_OF_DRAWS, *_OF_LOADING, *unhonoured_names(settings)}
    kept: dict[str, Any] = {name: value for name, value in settings.to_dict().items() if name not in dropped}
    return GenerationConfig(**{**kept, "do_sample": False, "num_beams": 1})


def _dense(config: PretrainedConfig) -> PretrainedConfig:
    """The weights that a `.gguf` file's config describes as blocks are read as numbers."""
    if getattr(config, "quantization_config", None) is not None:
        del config.quantization_config
    return config
