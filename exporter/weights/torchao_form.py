"""Quantization in torchao's own form, which XNNPACK takes: for programs that must run without our operators.

Weights of 8 bits have one scale per feature and activations one per row: what XNNPACK multiplies. The head is a matrix
of its own (XNNPACK packs it), beside the embedding that is looked up.
"""

from __future__ import annotations

import torch
from torch import nn

from exporter.spec.weight_format import WeightFormat, is_linear, products, word_tables
from exporter.weights.replacement import plain_linear, writes_its_product_out


def quantize_for_xnnpack(model: nn.Module, weights: WeightFormat) -> None:
    """Replace the weights of `model` in place by torchao's quantized tensors."""
    from torchao.quantization import Int8DynamicActivationIntxWeightConfig, IntxWeightOnlyConfig, quantize_
    from torchao.quantization.granularity import PerAxis, PerGroup

    untie_head(model)
    use_linear_layers(model)
    tables, head = word_tables(model), model.get_output_embeddings()
    chosen = {id(module) for _, module in products(model) if module is not head}
    per_feature = PerAxis(0)
    layers = Int8DynamicActivationIntxWeightConfig(
        weight_dtype=torch.int8 if weights.linear_bits == 8 else torch.int4,
        weight_granularity=per_feature if weights.linear_bits == 8 else PerGroup(weights.group),
    )
    output = Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int8, weight_granularity=per_feature)
    table = IntxWeightOnlyConfig(weight_dtype=torch.int8, granularity=per_feature)
    quantize_(model, table, lambda module, name: any(module is one for one in tables))
    quantize_(model, output, lambda module, name: module is head)
    quantize_(model, layers, lambda module, name: id(module) in chosen)


def plain_tensors(model: nn.Module) -> None:
    """Turn torchao's tensors into plain ones and the operators over them, which a trace can hold."""
    from torchao.utils import unwrap_tensor_subclass

    unwrap_tensor_subclass(model)


def untie_head(model: nn.Module) -> None:
    """Give the output head a weight of its own."""
    head = model.get_output_embeddings()
    if head.weight is model.get_input_embeddings().weight:
        head.weight = nn.Parameter(head.weight.detach().clone(), requires_grad=False)


def use_linear_layers(model: nn.Module) -> None:
    """GPT-2's transposed layers, and Falcon's written out, as plain linear ones."""
    for parent in list(model.modules()):
        for name, child in parent.named_children():
            if writes_its_product_out(child):
                setattr(parent, name, plain_linear(child))
            elif is_linear(child) and not isinstance(child, nn.Linear):
                layer = nn.Linear(*child.weight.shape, bias=child.bias is not None)
                layer.weight = nn.Parameter(child.weight.detach().T.contiguous(), requires_grad=False)
                layer.bias = child.bias
                setattr(parent, name, layer)
