"""The operators over stored weights: schemas, eager references, registration with PyTorch.

`dense`, `quantize_rows` and `embed` are what a lowered program calls, and the C++ kernels implement: their weights are
in the layout of `layout.py`. `quantized_dense` and `quantized_embedding` are what a quantized model calls in eager
PyTorch and in a trace: plain integers and scales. `lower/executorch_weights.py` turns the second into the first.

Shape legend: N output features, C inputs, G groups of S inputs, X 1 (scale) or 2 (scale, minimum).
"""

from __future__ import annotations

from functools import cache, partial

import torch
from torch import Tensor
from torch.nn import functional

from exporter.operator_library import NAMESPACE, Operator, define
from exporter.weights.layout import WeightLayout, unpack_floats, unpack_integers


def quantize_groups(rows: Tensor, group: int) -> tuple[Tensor, Tensor]:
    """Rows `[..., C]` as integers `[..., G, group]` in float32 and scales `[..., G, 1]`.

    value = round(x * 127 / m) and scale = m / 127, m being the largest |x| of the group; C is filled up with zeros.
    Where 127 / m is no finite number (m is 0 or next to it), all values are 0.
    """
    padded = functional.pad(rows, (0, -rows.shape[-1] % group))
    grouped = padded.unflatten(-1, (-1, group))
    largest = grouped.abs().amax(-1, keepdim=True)
    inverse = torch.full_like(largest, 127.0) / largest  # 127.0 / largest would multiply with a rounded reciprocal
    inverse = torch.where(inverse.isfinite(), inverse, 0.0)
    return torch.round(grouped * inverse), largest / 127.0


def dequantized(values_NC: Tensor, scales_NGX: Tensor, group: int) -> Tensor:
    """float32 weights `[N, C]`: value * scale, and a minimum where there is one."""
    terms_NGX = scales_NGX.float()
    padded = functional.pad(values_NC, (0, -values_NC.shape[1] % group)) if values_NC.shape[1] % group else values_NC
    weights_NGS = padded.float().unflatten(1, (-1, group)).mul_(terms_NGX[..., :1])
    if terms_NGX.shape[2] > 1:
        weights_NGS.add_(terms_NGX[..., 1:])
    return weights_NGS.flatten(1)[:, : values_NC.shape[1]]


def quantized_dense(
    input: Tensor, values: Tensor, scales: Tensor, bias: Tensor | None, bits: int, group: int
) -> Tensor:
    """`[..., C] -> [..., N]`: inputs rounded to 8 bits per group of a row, values int8 `[N, C]`, scales `[N, G, X]`."""
    del bits  # the values have them; lowering needs to know
    integers, input_scales = quantize_groups(input, group)
    rounded = (integers * input_scales).flatten(-2)[..., : input.shape[-1]]
    return functional.linear(rounded, dequantized(values, scales, group), bias)


def quantized_embedding(indices: Tensor, values: Tensor, scales: Tensor, bits: int, group: int) -> Tensor:
    """Rows `[..., C]` of the weights."""
    del bits
    flat = indices.reshape(-1)
    return dequantized(values[flat], scales[flat], group).view(*indices.shape, values.shape[1])


def quantize_rows(input: Tensor, group: int) -> Tensor:
    """Rows of floats `[..., C]` to bytes `[..., row_bytes]`: int8 values, float32 scales, int32 sums of values."""
    integers, scales = quantize_groups(input, group)
    parts = (
        integers.to(torch.int8).flatten(-2),
        scales.squeeze(-1).contiguous(),
        integers.sum(-1).to(torch.int32),
    )
    return torch.cat([part.contiguous().view(torch.uint8) for part in parts], dim=-1)


def dense(
    input: Tensor, weight: Tensor, bias: Tensor | None, width: int, features: int, bits: int, group: int
) -> Tensor:
    """A product with stored weights: float rows `[..., C]`, or quantized rows with integer weights."""
    layout = WeightLayout(features, width, bits, group)
    if not layout.is_integer:
        return functional.linear(input, unpack_floats(weight, layout), bias)
    values, scales = unpack_integers(weight, layout)
    size = layout.groups * group
    integers = input[..., :size].contiguous().view(torch.int8).float().unflatten(-1, (-1, group))
    row_scales = input[..., size : size + 4 * layout.groups].contiguous().view(torch.float32)
    rows = (integers * row_scales[..., None]).flatten(-2)[..., :width]
    return functional.linear(rows, dequantized(values, scales, group), bias)


def embed(indices: Tensor, weight: Tensor, width: int, features: int, bits: int, group: int) -> Tensor:
    """Features `indices` of stored weights as rows `[..., C]`."""
    layout = WeightLayout(features, width, bits, group)
    if not layout.is_integer:
        return unpack_floats(weight, layout)[indices]
    return dequantized(*unpack_integers(weight, layout), group)[indices]


def _meta_dense(input: Tensor, weight: Tensor, bias, width: int, features: int, bits: int, group: int) -> Tensor:
    return input.new_empty((*input.shape[:-1], features), dtype=torch.float32)


def _meta_quantize_rows(input: Tensor, group: int) -> Tensor:
    bytes_per_row = WeightLayout(1, input.shape[-1], 8, group).row_bytes
    return input.new_empty((*input.shape[:-1], bytes_per_row), dtype=torch.uint8)


def _meta_embed(indices: Tensor, weight: Tensor, width: int, features: int, bits: int, group: int) -> Tensor:
    return indices.new_empty((*indices.shape, width), dtype=torch.float32)


_STORED = "int width, int features, int bits, int group"
_OPERATORS = {
    "dense": Operator(f"Tensor input, Tensor weight, Tensor? bias, {_STORED}", dense, _meta_dense),
    "quantize_rows": Operator("Tensor input, int group", quantize_rows, _meta_quantize_rows),
    "embed": Operator(f"Tensor indices, Tensor weight, {_STORED}", embed, _meta_embed),
    "quantized_dense": Operator(
        "Tensor input, Tensor values, Tensor scales, Tensor? bias, int bits, int group",
        quantized_dense,
        lambda input, values, *rest: input.new_empty((*input.shape[:-1], values.shape[0])),
    ),
    "quantized_embedding": Operator(
        "Tensor indices, Tensor values, Tensor scales, int bits, int group",
        quantized_embedding,
        lambda indices, values, *rest: indices.new_empty((*indices.shape, values.shape[1]), dtype=torch.float32),
    ),
}
_library = cache(partial(define, _OPERATORS))


def operators():
    """`torch.ops.fixed_capacity` with the operators of this file, defined on first use."""
    _library()
    return getattr(torch.ops, NAMESPACE)
