"""Text encoder-decoders: the T5 and BART families."""

from __future__ import annotations

from torch import nn
from transformers import PreTrainedModel

from exporter.cache.attention_binding import BiasTable
from exporter.spec.capacity_plan import CapacityPlan
from runtime_shims.contract.manifest import Attention

from .encoder_decoder import Decode, Encode
from .fixed_capacity_model import FixedCapacityModel, PositionTable, attention_modules
from .relative_bias import bias_table

CROSS_ATTENTION_NAMES = ("EncDecAttention", "encoder_attn")


def build(model: PreTrainedModel, plan: CapacityPlan, attention: Attention) -> dict[str, nn.Module]:
    """The methods of a text encoder-decoder program: `encode` and `decode`."""
    root = FixedCapacityModel(model, plan, attention)
    bind_encoder(root)
    bind_decoder(root)
    return {"encode": Encode(root, "input_ids"), "decode": Decode(root)}


def bind_encoder(root: FixedCapacityModel) -> None:
    bias: BiasTable | None = None
    for _, module in attention_modules(root.model.get_encoder()):
        bias = own_bias(root, module, "encoder") or bias
        root.bind_attention(module, "encoder", bias=bias)


def bind_decoder(root: FixedCapacityModel) -> None:
    decoder = root.model.get_decoder()
    if hasattr(decoder, "embed_positions"):
        decoder.embed_positions = PositionTable(decoder.embed_positions, root.step)
    bias: BiasTable | None = None
    for name, module in attention_modules(decoder):
        if name.endswith(CROSS_ATTENTION_NAMES):
            root.bind_attention(module, "cross", root.cross_layers[module.layer_idx])
            continue
        bias = own_bias(root, module, "decoder") or bias
        root.bind_attention(module, "self", root.self_layers[module.layer_idx], bias)


def own_bias(root: FixedCapacityModel, module: nn.Module, stack: str) -> BiasTable | None:
    """The table of a module that has a bias of its own; T5's later layers reuse the first layer's."""
    if not getattr(module, "has_relative_attention_bias", False):
        return None
    bias = bias_table(module)
    root.bias_tables[f"{stack}_{len(root.bias_tables)}"] = bias.holder
    return bias
