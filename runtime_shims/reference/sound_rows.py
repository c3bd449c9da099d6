"""Sound of any length, a row each, as programs take it whose encoder follows the sound.

Shape legend: B batch rows, N samples of a row, h hops, S samples of a hop.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from runtime_shims.contract.errors import CapacityExceeded, UserInputError
from runtime_shims.contract.manifest import Speech
from runtime_shims.contract.sound_positions import SoundPositions


def is_sound(source: object) -> bool:
    """Whether an encoder input is rows of sound: one array of floating-point numbers, or a list of them."""
    array = source[0] if isinstance(source, Sequence) and source else source
    return isinstance(array, Tensor | np.ndarray) and array.dtype in (torch.float32, np.float32)


def check_sounds(source: object, speech: Speech, positions: SoundPositions) -> list[Tensor]:
    """Rows of sound, float32 [N] each.

    Raises UserInputError for what is no sound, or too short to be heard, and CapacityExceeded for what is too long.
    """
    if isinstance(source, Tensor | np.ndarray) and source.ndim == 2:
        source = list(source)
    if not isinstance(source, Sequence):
        raise UserInputError(f"sound is a list of float32 arrays, one per row, got {type(source).__name__}")
    return [_checked(row, f"row {index}", speech, positions) for index, row in enumerate(source)]


def _checked(sound: object, name: str, speech: Speech, positions: SoundPositions) -> Tensor:
    if isinstance(sound, np.ndarray) and sound.dtype == np.float32:
        sound = torch.tensor(sound)
    if not isinstance(sound, Tensor) or sound.dtype != torch.float32 or sound.dim() != 1:
        is_array = isinstance(sound, Tensor | np.ndarray)
        given = f"{sound.dtype} {tuple(sound.shape)}" if is_array else type(sound).__name__  # type: ignore[attr-defined]
        raise UserInputError(f"{name}: sound is float32 of shape [samples], got {given}")
    seconds = len(sound) / speech.sampling_rate
    if len(sound) < positions.window:
        raise UserInputError(
            f"{name} has {seconds:g} s of sound, the encoder takes at least {least_seconds(speech, positions):g} s; "
            "give it more"
        )
    if len(sound) > speech.samples:
        raise CapacityExceeded(
            f"{name} has {seconds:g} s of sound, the encoder takes at most {speech.samples / speech.sampling_rate:g} "
            "s; cut it or export with a larger --max-enc"
        )
    if not bool(torch.isfinite(sound).all()):
        raise UserInputError(f"{name}: the sound holds values that are not finite; check the audio")
    return sound


def least_seconds(speech: Speech, positions: SoundPositions) -> float:
    """The shortest sound that gives an encoder position."""
    return positions.window / speech.sampling_rate


def in_hops(sounds: Sequence[Tensor], stride: int) -> Tensor:
    """Rows of sound as float32 [B, h, S], h the longest row's, zeros behind the others."""
    hops = max(-(-len(sound) // stride) for sound in sounds)
    waveform_BN = torch.zeros(len(sounds), hops * stride)
    for row, sound_N in zip(waveform_BN, sounds, strict=True):
        row[: len(sound_N)] = sound_N
    return waveform_BN.view(len(sounds), hops, stride)
