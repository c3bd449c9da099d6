"""Text encoder-decoders: the T5 and BART families, T5Gemma 1 and 2."""

from __future__ import annotations

from torch import nn
from transformers import PreTrainedModel

from exporter.cache.attention_binding import BiasTable
from exporter.spec.capacity_plan import CapacityPlan
from exporter.spec.families import FAMILIES
from runtime_shims.contract.manifest import Attention

from .encoder_decoder import Decode, Encode
from .fixed_capacity_model import FixedCapacityModel, PositionTable, attention_modules
from .merged_decoder import is_merged
from .relative_bias import bias_table, sides_of, window_table
from .sinusoid_positions import SourceSinusoids, StepSinusoids, grows_its_table

CROSS_ATTENTION_NAMES = ("EncDecAttention", "encoder_attn", "cross_attn")


def build(model: PreTrainedModel, plan: CapacityPlan, attention: Attention) -> dict[str, nn.Module]:
    """The methods of a text encoder-decoder program: `encode` and `decode`."""
    root = FixedCapacityModel(model, plan, attention)
    bind_encoder(root)
    bind_decoder(root)
    return {"encode": Encode(root, "input_ids"), "decode": Decode(root)}


def bind_encoder(root: FixedCapacityModel) -> None:
    encoder = root.model.get_encoder()
    if grows_its_table(getattr(encoder, "embed_positions", None)):
        encoder.embed_positions = SourceSinusoids(encoder.embed_positions, root.plan.max_enc or 1)
    bias: BiasTable | None = None
    windows: dict[int, BiasTable] = {}
    for _, module in attention_modules(encoder):
        bias = own_bias(root, module, "encoder") or bias
        root.bind_attention(module, "encoder", bias=bias or own_window(root, module, windows))


def bind_decoder(root: FixedCapacityModel) -> None:
    decoder = root.model.get_decoder()
    if grows_its_table(getattr(decoder, "embed_positions", None)):
        decoder.embed_positions = StepSinusoids(decoder.embed_positions, root.plan.recipe.max_dec, root.step)
    elif hasattr(decoder, "embed_positions"):
        decoder.embed_positions = PositionTable(decoder.embed_positions, root.step)
    bias: BiasTable | None = None
    for name, module in attention_modules(decoder):
        if is_merged(module):
            root.bind_merged(module, root.self_layers[module.layer_idx], root.cross_layers[module.layer_idx])
            continue
        if name.endswith(CROSS_ATTENTION_NAMES):
            root.bind_attention(module, "cross", root.cross_layers[module.layer_idx])
            continue
        bias = own_bias(root, module, "decoder") or bias
        root.bind_attention(module, "self", root.self_layers[module.layer_idx], bias)


def own_bias(root: FixedCapacityModel, module: nn.Module, stack: str) -> BiasTable | None:
    """The table of a module that has a bias of its own; T5's later layers reuse the first layer's."""
    if not getattr(module, "has_relative_attention_bias", False):
        return None
    return kept(root, bias_table(module), stack)


def own_window(root: FixedCapacityModel, module: nn.Module, windows: dict[int, BiasTable]) -> BiasTable | None:
    """The window of an encoder's sliding layer as a table, which layers share; None where it holds every source."""
    window = getattr(module, "sliding_window", None)
    if window is None:
        return None
    behind, ahead = sides_of(window, is_shared=FAMILIES[root.model.config.model_type].shared_window)
    if min(behind, ahead) >= (root.plan.max_enc or 0) - 1:
        return None
    if window not in windows:
        windows[window] = kept(root, window_table(behind, ahead, module.config.num_attention_heads), "window")
    return windows[window]


def kept(root: FixedCapacityModel, bias: BiasTable, name: str) -> BiasTable:
    root.bias_tables[f"{name}_{len(root.bias_tables)}"] = bias.holder
    return bias
