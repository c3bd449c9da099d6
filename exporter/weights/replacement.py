"""How modules of a model give way to ours that store their weights in another form."""

from __future__ import annotations

from torch import Tensor, nn

from exporter.spec.faults import ExportFailed
from exporter.spec.weight_format import word_tables


def replace_modules(model: nn.Module, replaced: dict[int, nn.Module]) -> None:
    """Put `replaced[id(module)]` wherever `model` holds that module."""
    for parent in list(model.modules()):
        for name, child in parent._modules.items():
            if id(child) in replaced:
                parent._modules[name] = replaced[id(child)]


def plain_linear(layer: nn.Linear) -> nn.Linear:
    """`nn.Linear` over the parameters of a subclass that writes its product out, which lowering would not know.

    Falcon keeps product and bias apart for what bfloat16 rounds between them; float32 does not tell them apart.
    """
    made = nn.Linear(layer.in_features, layer.out_features, bias=False, device="meta")
    made.weight, made.bias = layer.weight, layer.bias
    return made


def writes_its_product_out(layer: nn.Module) -> bool:
    """Whether a linear layer computes in code of its own."""
    return isinstance(layer, nn.Linear) and type(layer).forward is not nn.Linear.forward


def looked_up_tables(model: nn.Module) -> dict[int, nn.Embedding]:
    """By id, the modules that look up words: in the input embedding, the output head, or a table of the layers' own.

    Encoder and decoder may have modules of their own over one table, or a table each, the decoder's shared with the
    head (T5Gemma).
    """
    tables = [table.weight for table in (*word_tables(model), model.get_output_embeddings())]
    return {
        id(module): module
        for module in model.modules()
        if isinstance(module, nn.Embedding) and any(module.weight is table for table in tables)
    }


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
