"""A sound file to what the bundle takes: a waveform for its method `features`, or features of its extractor.

Shape legend: N samples, C channels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from runtime_shims.contract.bundle_reader import Bundle
from runtime_shims.contract.errors import UserInputError
from runtime_shims.contract.manifest import Speech
from runtime_shims.reference.sound_rows import least_seconds
from runtime_shims.reference.text import TOKENIZER_DIRECTORY, unreadable

Samples = NDArray[np.float32]


@dataclass(frozen=True)
class AudioCut:
    """Which part of a file to use, in seconds; `seconds` None is everything after `start`."""

    start: float
    seconds: float | None

    def __post_init__(self) -> None:
        """Raise UserInputError for a negative start, an empty cut, or a time that is not finite."""
        if self.start < 0 or not math.isfinite(self.start):
            raise UserInputError(f"--audio-start must be finite and not negative, got {self.start:g}")
        if self.seconds is not None and (self.seconds <= 0 or not math.isfinite(self.seconds)):
            raise UserInputError(f"--audio-seconds must be finite and positive, got {self.seconds:g}")


class Waveforms:
    """Sound for programs that take it."""

    def __init__(self, speech: Speech) -> None:
        """`speech` is the manifest's: the rate and the number of samples."""
        self._speech = speech

    def of_file(self, path: Path, cut: AudioCut) -> Tensor:
        """The waveform float32 [1, N] of one file; as long as it is, or zeros behind its end up to one length."""
        rate, length, positions = self._speech.sampling_rate, self._speech.samples, self._speech.positions
        samples_N = read_mono(path, cut, rate, length / rate)[:length]
        if positions is not None:
            if len(samples_N) < positions.window:
                raise _too_short(path, len(samples_N) / rate, least_seconds(self._speech, positions))
            return torch.from_numpy(np.ascontiguousarray(samples_N))[None]
        waveform_1N = torch.zeros(1, length)
        waveform_1N[0, : len(samples_N)] = torch.from_numpy(samples_N)
        return waveform_1N


class SpeechFeatures:
    """A bundle's feature extractor, for programs without that method."""

    def __init__(self, extractor: Any, source_shape: tuple[int, ...]) -> None:
        """`extractor` is a transformers feature extractor; `source_shape` what the encoder takes."""
        self._extractor = extractor
        self._source_shape = source_shape
        self.sampling_rate = int(extractor.sampling_rate)
        self.max_seconds = float(extractor.chunk_length)

    def of_file(self, path: Path, cut: AudioCut) -> Tensor:
        """Features float32 [1, *source_shape] of one file, padded to the encoder's length."""
        samples_N = read_mono(path, cut, self.sampling_rate, self.max_seconds)
        features = self._extractor(
            samples_N, sampling_rate=self.sampling_rate, return_tensors="np"
        ).input_features
        if tuple(features.shape[1:]) != self._source_shape:
            raise UserInputError(
                f"the bundle's feature extractor makes {tuple(features.shape[1:])}, the encoder takes "
                f"{self._source_shape}; export the bundle again"
            )
        return torch.from_numpy(np.ascontiguousarray(features, dtype=np.float32))


def read_mono(path: Path, cut: AudioCut, sampling_rate: int, max_seconds: float = math.inf) -> Samples:
    """The cut of a sound file as float32 [N] at `sampling_rate` samples per second, channels averaged.

    Raises UserInputError for a file that is missing, not sound, or has nothing in the cut; and, before any sound
    is read, for a cut that lasts longer than `max_seconds` by the file's header.
    """
    import soundfile

    if not path.exists():
        raise UserInputError(f"there is no audio file {path}")
    try:
        with soundfile.SoundFile(str(path)) as sound:
            rate = sound.samplerate
            first = round(min(cut.start * rate, sound.frames))
            rest = sound.frames - first
            wanted = rest if cut.seconds is None else round(min(cut.seconds * rate, rest))
            if round(wanted / rate * sampling_rate) > max_seconds * sampling_rate:
                raise _too_long(path, wanted / rate, max_seconds)
            sound.seek(first)
            samples_NC = sound.read(wanted, dtype="float32", always_2d=True)
            total_seconds = sound.frames / rate
    except soundfile.SoundFileError as error:
        raise UserInputError(f"{path} cannot be read as sound; give a WAV, FLAC or OGG file") from error
    if len(samples_NC) == 0:
        raise UserInputError(
            f"{path} has no sound to transcribe: it lasts {total_seconds:g} s, "
            f"--audio-start is {cut.start:g} s"
        )
    return resample(samples_NC.mean(axis=1), rate, sampling_rate)


def _too_long(path: Path, seconds: float, max_seconds: float) -> UserInputError:
    return UserInputError(
        f"{path} has {seconds:.1f} s of sound, the encoder takes at most {max_seconds:g} s; "
        f"cut it with --audio-start and --audio-seconds"
    )


def _too_short(path: Path, seconds: float, least: float) -> UserInputError:
    return UserInputError(f"{path} has {seconds:g} s of sound, the encoder takes at least {least:g} s; give it more")


def resample(samples_N: Samples, rate: int, sampling_rate: int) -> Samples:
    """Samples at another rate; the same array when the rates agree."""
    if rate == sampling_rate:
        return samples_N
    import soxr

    return np.asarray(soxr.resample(samples_N, rate, sampling_rate), dtype=np.float32)


def load_speech_features(bundle: Bundle) -> SpeechFeatures:
    """The feature extractor in the bundle. Raises UserInputError when there is none."""
    directory = bundle.root / TOKENIZER_DIRECTORY
    shape = bundle.manifest.limits.source_shape
    if shape is None or not any(entry.role == "preprocessor" for entry in bundle.manifest.files):
        raise UserInputError("the bundle carries no feature extractor; export the model with its processor")
    from transformers import AutoFeatureExtractor

    try:
        extractor = AutoFeatureExtractor.from_pretrained(str(directory), local_files_only=True)
    except Exception as error:  # a settings file of the wrong form ends in whatever transformers meets first
        raise unreadable("feature extractor", error) from error
    return SpeechFeatures(extractor, tuple(shape))
