"""How modules of a model give way to ours that store their weights in another form."""

from __future__ import annotations

from torch import Tensor, nn

from exporter.spec.faults import ExportFailed


def replace_modules(model: nn.Module, replaced: dict[int, nn.Module]) -> None:
    """Put `replaced[id(module)]` wherever `model` holds that module."""
    for parent in list(model.modules()):
        for name, child in parent._modules.items():
            if id(child) in replaced:
                parent._modules[name] = replaced[id(child)]


def lookup_scale(embedding: nn.Module) -> Tensor | float | None:
    """What an embedding multiplies its rows with: `embed_scale` in every family that scales inside the lookup.

    Raises:
        ExportFailed: the embedding does more than look up and scale.
    """
    scale = getattr(embedding, "embed_scale", None)
    if scale is None and type(embedding) is not nn.Embedding:
        fault = f"the embedding {type(embedding).__name__} is not known; use --quantize none and --dtype float32"
        raise ExportFailed("weights", [fault])
    return scale.clone() if isinstance(scale, Tensor) else scale
