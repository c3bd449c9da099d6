"""Matrices in integers as the bytes that ONNX's operators read.

Shape legend: N output features, C inputs, G groups of S inputs, X numbers of a group beside its values (1, or 2 with
4 bits).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class IntegerMatrix:
    """One matrix as the quantizer made it: int8 values, scales and minima.

    Attributes:
        name: of the values in the model.
        group: inputs that share a scale.
    """

    name: str
    values_NC: np.ndarray
    terms_NGX: np.ndarray
    bits: int
    group: int

    @property
    def features(self) -> int:
        return int(self.values_NC.shape[0])

    @property
    def width(self) -> int:
        return int(self.values_NC.shape[1])

    @property
    def is_whole(self) -> bool:
        """Whether a feature has one scale, and no minimum."""
        return self.bits == 8 and self.group >= self.width

    def transposed(self) -> np.ndarray:
        """int8 `[C, N]`, as `MatMulInteger` reads."""
        return np.ascontiguousarray(self.values_NC.T)

    def groups(self) -> np.ndarray:
        """uint8 `[N, G, bytes of a group]`, as `MatMulNBits` reads: 8 bits around 128, or two of 4 bits in a byte."""
        stored = self.values_NC.astype(np.int16) + (128 if self.bits == 8 else 0)
        filled = np.pad(stored, ((0, 0), (0, -self.width % self.group))).astype(np.uint8)
        values_NGS = filled.reshape(self.features, -1, self.group)
        return values_NGS if self.bits == 8 else in_pairs(values_NGS)

    def rows(self) -> np.ndarray:
        """The same bytes as `[N, bytes of a feature]`, as `GatherBlockQuantized` reads."""
        return self.groups().reshape(self.features, -1)

    def scales(self) -> np.ndarray:
        """float32 `[N, G]`; `[N]` of whole features."""
        scales_NG = np.ascontiguousarray(self.terms_NGX[..., 0])
        return scales_NG[:, 0] if self.is_whole else scales_NG

    def zeros(self) -> np.ndarray:
        """The values of 4 bits that stand for zero, uint8 `[N, G / 2]`: minima are multiples of their scales."""
        zeros_NG = np.rint(-self.terms_NGX[..., 1] / self.terms_NGX[..., 0]).astype(np.uint8)
        return in_pairs(np.pad(zeros_NG, ((0, 0), (0, zeros_NG.shape[1] % 2))))


def in_pairs(values: np.ndarray) -> np.ndarray:
    """Values of 4 bits, two in a byte, the first in its lower half."""
    pairs: np.ndarray = values[..., 0::2] | values[..., 1::2] << 4
    return pairs
