"""Reads the sound file that all rivals are given. Standard library and numpy."""

from __future__ import annotations

import wave

import numpy as np
from numpy.typing import NDArray

SAMPLING_RATE = 16_000


def read_samples(path: str) -> NDArray[np.float32]:
    """float32 [N] in -1..1 of a 16-bit mono WAV file at 16 kHz."""
    with wave.open(path) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, SAMPLING_RATE)
        return np.frombuffer(file.readframes(file.getnframes()), dtype="<i2").astype(np.float32) / 32768
