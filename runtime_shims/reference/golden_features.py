"""What the extractor of a speech model answered, in a golden file, and how a program's `features` compare.

    {"rows": [[[mel bin, frame, value], ...] per row], "tolerance_abs": x}      or null

The sound is not stored: it is made from integers, so that every language makes the same.

Shape legend: B batch rows, N samples, M mel bins, F frames.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from runtime_shims.contract.errors import UserInputError
from runtime_shims.reference.session import Session

PERIOD = 2003
"""A prime: squares of the integers below it fall without order."""
LOUDNESS = (0.5, 0.0, 2.0**-11, 2.0**-5)
"""Of the quarters of a row: loud, silent, and around the level that is cut off."""


@dataclass(frozen=True)
class GoldenFeatures:
    """Some features `(mel bin, frame, value)` of each row, and how far a program's may be from them."""

    rows: tuple[tuple[tuple[int, int, float], ...], ...]
    tolerance: float


@dataclass(frozen=True)
class FeaturesResult:
    """The largest difference of a recorded feature."""

    values: int
    difference: float
    tolerance: float

    @property
    def passed(self) -> bool:
        """Whether every recorded feature is within the tolerance; False for NaN."""
        return self.difference <= self.tolerance


def golden_waveform(rows: int, samples: int) -> Tensor:
    """The sound of `rows` rows, float32 [B, N]. Sample n of row r, in double precision and rounded once, is

    `LOUDNESS[(4 n div N + r) mod 4] * ((n * n + r * n) mod 2003 - 1001) / 1001`
    """
    time_N = torch.arange(samples, dtype=torch.int64)
    loudness = torch.tensor(LOUDNESS, dtype=torch.float64)
    made = []
    for row in range(rows):
        wave_N = ((time_N * time_N + row * time_N) % PERIOD - PERIOD // 2).double() / (PERIOD // 2)
        made.append(loudness[(4 * time_N // samples + row) % len(LOUDNESS)] * wave_N)
    return torch.stack(made).float()


def replay_features(session: Session, golden: GoldenFeatures) -> FeaturesResult:
    """Run `features` on the sound of the golden rows and compare.

    Raises UserInputError when the bundle has no such method, or the file names features that there are not.
    """
    speech = session.manifest.speech
    if speech is None:
        raise UserInputError("the golden file holds speech features, the bundle makes none")
    features_BMF = session.features(golden_waveform(len(golden.rows), speech.samples))
    bins, frames = features_BMF.shape[1:]
    differences = []
    for row, values in enumerate(golden.rows):
        for mel, frame, value in values:
            if mel >= bins or frame >= frames:
                raise UserInputError(f"the golden file holds feature {mel}, {frame}; there are {bins} x {frames}")
            differences.append(abs(float(features_BMF[row, mel, frame]) - value))
    largest = float(torch.tensor(differences, dtype=torch.float64).max()) if differences else 0.0
    return FeaturesResult(len(differences), largest, golden.tolerance)
