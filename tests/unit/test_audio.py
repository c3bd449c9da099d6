"""Sound files to features: mixing, resampling, cutting, and what is refused."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from runtime_doubles import BundleShape, make_bundle
from transformers import WhisperFeatureExtractor

from runtime_shims.contract.errors import UserInputError
from runtime_shims.contract.manifest import FileEntry
from runtime_shims.reference.audio import (
    AudioCut,
    SpeechFeatures,
    load_speech_features,
    read_mono,
    resample,
)
from runtime_shims.reference.stats import peak_rss_bytes

RATE = 16_000
EVERYTHING = AudioCut(start=0.0, seconds=None)
NOT_FINITE = [(math.nan, None), (math.inf, None), (0.0, math.nan), (0.0, math.inf)]


def tone(seconds: float, rate: int = RATE, hertz: float = 440.0) -> np.ndarray:
    return (0.3 * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)).astype(np.float32)


@pytest.fixture
def features() -> SpeechFeatures:
    return SpeechFeatures(WhisperFeatureExtractor(), (80, 3000))


def test_features_are_those_of_the_extractor(tmp_path: Path, features: SpeechFeatures) -> None:
    path = tmp_path / "tone.wav"
    soundfile.write(path, tone(1.5), RATE, subtype="FLOAT")
    wanted = WhisperFeatureExtractor()(tone(1.5), sampling_rate=RATE, return_tensors="pt").input_features
    got = features.of_file(path, EVERYTHING)
    assert got.dtype == torch.float32
    assert tuple(got.shape) == (1, 80, 3000)
    assert torch.equal(got, wanted)


def test_channels_are_averaged(tmp_path: Path) -> None:
    path = tmp_path / "stereo.wav"
    soundfile.write(path, np.stack([tone(0.1), np.zeros_like(tone(0.1))], axis=1), RATE, subtype="FLOAT")
    np.testing.assert_allclose(read_mono(path, EVERYTHING, RATE), tone(0.1) / 2, atol=1e-6)


@pytest.mark.parametrize("rate", [8_000, 44_100, 48_000])
def test_other_rates_are_resampled(tmp_path: Path, rate: int) -> None:
    path = tmp_path / "tone.wav"
    soundfile.write(path, tone(1.0, rate), rate, subtype="FLOAT")
    samples = read_mono(path, EVERYTHING, RATE)
    assert abs(len(samples) - RATE) <= 1
    middle = slice(RATE // 4, 3 * RATE // 4)
    np.testing.assert_allclose(samples[middle], tone(1.0)[middle], atol=2e-3)


def test_the_right_rate_is_not_touched() -> None:
    samples = tone(0.1)
    assert resample(samples, RATE, RATE) is samples


def test_a_cut_takes_its_part_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "ramp.wav"
    ramp = np.linspace(-1, 1, 2 * RATE, dtype=np.float32)
    soundfile.write(path, ramp, RATE, subtype="FLOAT")
    np.testing.assert_array_equal(read_mono(path, AudioCut(0.5, 0.25), RATE), ramp[8000:12000])
    np.testing.assert_array_equal(read_mono(path, AudioCut(1.5, 9.0), RATE), ramp[24000:])


def test_thirty_seconds_fit_and_more_are_refused_with_what_to_do(
    tmp_path: Path, features: SpeechFeatures
) -> None:
    path = tmp_path / "long.wav"
    soundfile.write(path, np.zeros(31 * RATE, dtype=np.float32), RATE)
    with pytest.raises(UserInputError, match=r"31\.0 s.*at most 30 s.*--audio-seconds"):
        features.of_file(path, EVERYTHING)
    assert tuple(features.of_file(path, AudioCut(0.0, 30.0)).shape) == (1, 80, 3000)


@pytest.mark.parametrize("name", ["long.wav", "long.flac"])
def test_a_file_that_is_too_long_is_refused_by_its_header_and_not_read(
    tmp_path: Path, features: SpeechFeatures, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path = tmp_path / name
    soundfile.write(path, np.zeros(31 * 8000, dtype=np.float32), 8000)

    def read(self: soundfile.SoundFile, *arguments: object, **options: object) -> None:
        raise AssertionError("sound was read")

    monkeypatch.setattr(soundfile.SoundFile, "read", read)
    with pytest.raises(UserInputError, match=rf"{name} has 31\.0 s of sound.*at most 30 s"):
        features.of_file(path, EVERYTHING)
    with pytest.raises(UserInputError, match=r"has 30\.5 s of sound"):
        features.of_file(path, AudioCut(0.5, 1000.0))
    with pytest.raises(AssertionError, match="sound was read"):
        features.of_file(path, AudioCut(1.0, None))


def test_of_a_file_of_gigabytes_only_the_part_that_is_asked_for_is_read(
    tmp_path: Path, features: SpeechFeatures
) -> None:
    path = tmp_path / "long.wav"
    soundfile.write(path, np.zeros(0, dtype=np.int16), RATE)
    header = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(header - 4)
        file.write(b"\xff" * 4)  # the size of the samples, as a recorder leaves it that does not know it yet
        file.truncate(header + 2 * 100_000 * RATE)  # holes: nothing is stored
        file.seek(header + 2 * 90_000 * RATE)
        file.write(np.array([16384, -32768], dtype="<i2").tobytes())
    before = peak_rss_bytes()
    part = read_mono(path, AudioCut(90_000.0, 2.0), RATE)
    assert (len(part), part[:3].tolist()) == (2 * RATE, [0.5, -1.0, 0.0])
    with pytest.raises(UserInputError, match=r"long\.wav has 100000\.0 s of sound, the encoder takes at most 30 s"):
        features.of_file(path, EVERYTHING)
    assert peak_rss_bytes() - before < 64 << 20


def test_a_header_that_claims_every_number_of_samples_is_refused_by_name(
    tmp_path: Path, features: SpeechFeatures
) -> None:
    path = tmp_path / "claims.flac"
    soundfile.write(path, tone(1.5), RATE)
    data = bytearray(path.read_bytes())
    data[21] |= 0x0F  # the count of samples: 36 bits, the last of the first metadata block's word at byte 18
    data[22:26] = b"\xff" * 4
    path.write_bytes(data)
    with pytest.raises(UserInputError, match=r"claims\.flac has 4294967\.3 s of sound, the encoder takes at most 30 s"):
        features.of_file(path, EVERYTHING)


def test_a_file_that_is_not_sound_is_refused(tmp_path: Path, features: SpeechFeatures) -> None:
    path = tmp_path / "notes.wav"
    path.write_bytes(b"not a sound file at all")
    with pytest.raises(UserInputError, match=r"notes\.wav cannot be read as sound.*WAV"):
        features.of_file(path, EVERYTHING)


def test_an_empty_file_of_sound_is_refused(tmp_path: Path, features: SpeechFeatures) -> None:
    path = tmp_path / "empty.wav"
    soundfile.write(path, np.zeros(0, dtype=np.float32), RATE)
    with pytest.raises(UserInputError, match="no sound"):
        features.of_file(path, EVERYTHING)


def test_a_start_behind_the_end_is_refused(tmp_path: Path, features: SpeechFeatures) -> None:
    path = tmp_path / "short.wav"
    soundfile.write(path, tone(1.0), RATE)
    with pytest.raises(UserInputError, match="lasts 1 s"):
        features.of_file(path, AudioCut(5.0, None))


def test_a_start_or_length_beyond_every_number_of_samples_is_no_overflow(tmp_path: Path) -> None:
    path = tmp_path / "short.wav"
    soundfile.write(path, tone(1.0), RATE)
    with pytest.raises(UserInputError, match="lasts 1 s"):
        read_mono(path, AudioCut(1e308, None), RATE)
    assert len(read_mono(path, AudioCut(0.0, 1e308), RATE)) == RATE


def test_a_missing_file_is_refused(tmp_path: Path, features: SpeechFeatures) -> None:
    with pytest.raises(UserInputError, match="no audio file"):
        features.of_file(tmp_path / "nothing.wav", EVERYTHING)


@pytest.mark.parametrize(("start", "seconds"), [(-1.0, None), (0.0, 0.0), (0.0, -2.0), *NOT_FINITE])
def test_a_cut_that_makes_no_sense_is_refused(start: float, seconds: float | None) -> None:
    with pytest.raises(UserInputError, match="--audio-"):
        AudioCut(start, seconds)


def test_an_extractor_of_another_shape_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tone.wav"
    soundfile.write(path, tone(0.5), RATE)
    with pytest.raises(UserInputError, match="export the bundle again"):
        SpeechFeatures(WhisperFeatureExtractor(), (128, 3000)).of_file(path, EVERYTHING)


def test_the_extractor_is_read_from_the_bundle(tmp_path: Path) -> None:
    WhisperFeatureExtractor().save_pretrained(tmp_path / "tokenizer")
    listed = FileEntry("tokenizer/preprocessor_config.json", "preprocessor", "0" * 64, 0)
    bundle = make_bundle(BundleShape(kind="speech_seq2seq", files=(listed,)), root=tmp_path)
    assert load_speech_features(bundle).sampling_rate == RATE


@pytest.mark.parametrize("settings", ["[]", "3", "{"])
def test_an_extractor_whose_settings_have_the_wrong_form_is_one_line(tmp_path: Path, settings: str) -> None:
    (tmp_path / "tokenizer").mkdir()
    (tmp_path / "tokenizer" / "preprocessor_config.json").write_text(settings)
    listed = FileEntry("tokenizer/preprocessor_config.json", "preprocessor", "0" * 64, 0)
    bundle = make_bundle(BundleShape(kind="speech_seq2seq", files=(listed,)), root=tmp_path)
    with pytest.raises(UserInputError, match="the bundle's feature extractor cannot be loaded") as refusal:
        load_speech_features(bundle)
    assert "\n" not in str(refusal.value)


def test_a_bundle_without_an_extractor_says_so(tmp_path: Path) -> None:
    with pytest.raises(UserInputError, match="no feature extractor"):
        load_speech_features(make_bundle(BundleShape(kind="speech_seq2seq"), root=tmp_path))
