"""How a waveform of any length becomes encoder positions: the arithmetic of programs whose work follows the sound.

Such a program takes sound in hops of `stride` samples, `[b, h, stride]`, with zeros behind the end of a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from runtime_shims.contract.strict_types import AtLeast


@dataclass(frozen=True)
class SoundPositions:
    """n samples become (n - window) // stride + 1 encoder positions; fewer than `window` become none.

    `window` is what one position hears, `stride` how far apart positions are: the convolutions of an encoder in one.
    """

    window: Annotated[int, AtLeast(1)]
    stride: Annotated[int, AtLeast(1)]

    def count(self, samples: int) -> int:
        """Encoder positions of a row of `samples`."""
        return max(0, (samples - self.window) // self.stride + 1)

    def hops(self, samples: int) -> int:
        """Hops that hold a row of `samples`."""
        return -(-samples // self.stride)

    @property
    def least_hops(self) -> int:
        """Hops that hold the shortest row, and that give one position."""
        return self.hops(self.window)

    def most_samples(self, max_enc: int) -> int:
        """The longest row of an encoder of `max_enc` positions: whole hops, which never give one position more."""
        return (max_enc - 1 + self.least_hops) * self.stride
