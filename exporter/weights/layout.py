"""Weight matrices in the layout of `runtime_shims/cpp/ops/weight_layout.h`: panels of 32 features, read as one stream.

Shape legend: N output features, C inputs, P panels of 32 features, G groups of inputs that share a scale, S inputs in
a group, X numbers that a group has beside its values (a scale, and a minimum with 4 bits).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

PANEL = 32
_PANELS_AT_ONCE = 128
OFFSETS = {8: 128, 4: 0}
"""What is added to integers of so many bits, which are stored unsigned."""
TERMS = {8: 1, 4: 2}
"""Numbers that a group has beside its values: a scale; with 4 bits a minimum too."""


@dataclass(frozen=True)
class WeightLayout:
    """Sizes of one stored matrix `[N, C]`. `bits` 32 and 16: floating point; 8 and 4: integers in groups of `group`."""

    features: int
    width: int
    bits: int = 32
    group: int = 0

    @property
    def is_integer(self) -> bool:
        return self.bits <= 8

    @property
    def panels(self) -> int:
        return -(-self.features // PANEL)

    @property
    def groups(self) -> int:
        return -(-self.width // self.group) if self.is_integer else 0

    @property
    def scale_bytes(self) -> int:
        """Bytes of a panel's bfloat16 scales, and minima of 4-bit values."""
        return self.groups * PANEL * 2 * TERMS[self.bits] if self.is_integer else 0

    @property
    def panel_bytes(self) -> int:
        if not self.is_integer:
            return self.width * PANEL * self.bits // 8
        return self.scale_bytes + self.groups * self.group * PANEL * self.bits // 8

    @property
    def size_bytes(self) -> int:
        return self.panels * self.panel_bytes

    @property
    def row_bytes(self) -> int:
        """Bytes of one row of quantized inputs: int8 values, a float32 scale and an int32 sum per group."""
        return self.groups * (self.group + 8)


def pack_floats(weight_NC: Tensor, bits: int) -> Tensor:
    """Float weights as `[P, C, 32]` of float32 or float16."""
    features, width = weight_NC.shape
    dtype = torch.float32 if bits == 32 else torch.float16
    padding = -features % PANEL
    padded = functional.pad(weight_NC, (0, 0, 0, padding)) if padding else weight_NC
    return padded.view(-1, PANEL, width).transpose(1, 2).to(dtype).contiguous()


def unpack_floats(packed: Tensor, layout: WeightLayout) -> Tensor:
    """The float32 matrix `[N, C]` of `pack_floats`."""
    return packed.transpose(1, 2).reshape(-1, layout.width)[: layout.features].float()


def pack_integers(values_NC: Tensor, scales_NGX: Tensor, layout: WeightLayout) -> Tensor:
    """int8 values and bfloat16 scales (and minima: X is 1 or 2) as the bytes `[P * panel_bytes]` of one matrix."""
    packed = torch.empty(layout.size_bytes, dtype=torch.uint8)
    panels = packed.view(layout.panels, layout.panel_bytes)
    for start in range(0, layout.panels, _PANELS_AT_ONCE):  # a matrix may be a good part of this machine's memory
        rows = slice(start * PANEL, (start + _PANELS_AT_ONCE) * PANEL)
        panels[start : start + _PANELS_AT_ONCE] = _pack_panels(values_NC[rows], scales_NGX[rows], layout)
    return packed


def _pack_panels(values_NC: Tensor, scales_NGX: Tensor, layout: WeightLayout) -> Tensor:
    """The panels `[P, panel_bytes]` of some rows."""
    features, width = values_NC.shape
    groups, filled = layout.groups, layout.groups * layout.group
    padded = functional.pad(values_NC, (0, filled - width, 0, -features % PANEL))
    stored = (padded.to(torch.int16) + OFFSETS[layout.bits]).to(torch.uint8)
    quads = stored.view(-1, PANEL, filled // 4, 4).transpose(1, 2)  # [P, C / 4, 32, 4]
    if layout.bits == 4:
        quads = quads[:, 0::2] | (quads[:, 1::2] << 4)
    scales = functional.pad(scales_NGX, (0, 0, 0, 0, 0, -features % PANEL))
    panels = scales.view(-1, PANEL, groups, TERMS[layout.bits]).permute(0, 2, 3, 1).contiguous()
    scale_bytes = panels.view(torch.uint8).reshape(quads.shape[0], -1)
    return torch.cat([scale_bytes, quads.reshape(quads.shape[0], -1)], dim=1)


def unpack_integers(packed: Tensor, layout: WeightLayout) -> tuple[Tensor, Tensor]:
    """int8 values `[N, C]` and bfloat16 scales `[N, G, X]` of `pack_integers`."""
    panels, groups, size = layout.panels, layout.groups, layout.group
    rows = packed.view(panels, -1)
    scales = rows[:, : layout.scale_bytes].contiguous().view(torch.bfloat16)
    scales_NGX = scales.view(panels, groups, TERMS[layout.bits], PANEL).permute(0, 3, 1, 2).flatten(0, 1)
    quads = rows[:, layout.scale_bytes :].reshape(panels, -1, PANEL, 4)
    if layout.bits == 4:
        quads = torch.stack([quads & 0x0F, quads >> 4], dim=2)
    stored = quads.reshape(panels, groups * size // 4, PANEL, 4).transpose(1, 2).reshape(panels * PANEL, -1)
    values = (stored.to(torch.int16) - OFFSETS[layout.bits]).to(torch.int8)
    return values[: layout.features, : layout.width].contiguous(), scales_NGX[: layout.features].contiguous()
