"""A model whose weights are only looked at: what makes integers of them needs them once, some rows at a time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from exporter.spec.model_source import ModelSource
from exporter.spec.model_spec import ModelSpec
from exporter.spec.progress import Progress, SilentProgress
from exporter.spec.streamed_model import LARGE, StreamedModel, of_loaded, of_random

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

_INDEXED = ("model.safetensors", "model.safetensors.index.json")


def open_model(source: ModelSource, progress: Progress | None = None) -> StreamedModel:
    """The model that `source.load_model` gives, its weights not in memory where the source allows that.

    It does where all of them are in safetensors files, in one type and none a formula, and for random weights of large
    models.

    Raises:
        ModelSourceError: weights are missing, left over or of another shape; lists their names.
    """
    progress = progress or SilentProgress()
    config = source.load_config()
    spec = ModelSpec.from_config(config)
    if source.random_weights and spec.parameter_count > LARGE:
        progress.stage(f"drawing {spec.parameter_count:,} random weights")
        return of_random(config, spec, source.seed)
    if source.random_weights or source.location.gguf_file is not None or not source.has_file(_INDEXED):
        return StreamedModel(source.load_model(progress))
    progress.stage("opening weights")
    loaded = source.read_weights(spec.kind, config, "auto")
    streamed = None
    if not _has_computed_weights(loaded) and _types(source.files()) == {loaded.dtype}:
        streamed = of_loaded(config, spec, loaded)
    return streamed or StreamedModel(_whole(source, loaded, progress))


def _whole(source: ModelSource, loaded: PreTrainedModel, progress: Progress) -> PreTrainedModel:
    import torch

    if loaded.dtype == torch.float32 and all(one.dtype == torch.float32 for one in loaded.parameters()):
        finished: PreTrainedModel = loaded.eval().requires_grad_(False)
        return finished
    del loaded
    return source.load_model(progress)


def _has_computed_weights(model: PreTrainedModel) -> bool:
    """Whether there are position tables that are a formula: computed in the checkpoint's type, they are rounded."""
    return any("Sinusoidal" in type(module).__name__ for module in model.modules() if list(module.parameters()))


def _types(directory: Path) -> set[torch.dtype]:
    """The floating-point types of the weights in a directory's safetensors files."""
    from safetensors import safe_open

    types: set[torch.dtype] = set()
    for path in directory.glob("*.safetensors"):
        with safe_open(path, framework="pt") as file:
            types |= {file.get_tensor(name).dtype for name in file.keys()}  # noqa: SIM118, it is no mapping
    return {one for one in types if one.is_floating_point}
