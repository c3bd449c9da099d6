"""Manifests of programs that take sound of any length: what positions say must be what limits and methods say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from test_method_rules import refused, with_input, with_method
from tiny_bundle import BATCH, integers, sound_manifest, speech_manifest

from runtime_shims.contract.manifest import Dim, Manifest, MethodEntry, TensorEntry, from_json, to_json
from runtime_shims.contract.sound_positions import SoundPositions

Change = Callable[[Manifest], Manifest]


def speech(**values: object) -> Change:
    """A change of the manifest's `speech`."""
    return lambda manifest: replace(manifest, speech=replace(manifest.speech, **values))  # type: ignore[type-var]


def encode(change: Callable[[MethodEntry], MethodEntry]) -> Change:
    return lambda manifest: with_method(manifest, "encode", change)


def waveform(*dims: Dim) -> TensorEntry:
    return TensorEntry("waveform", "float32", (BATCH, *dims))


def with_features(manifest: Manifest) -> Manifest:
    """The manifest with the method `features` of one that takes sound of one length."""
    (program,), (features, *_) = manifest.programs, speech_manifest().programs[0].methods
    return replace(manifest, programs=(replace(program, methods=(features, *program.methods)),))


HOP = Dim(None, 4, 4)
SOUND_CASES: list[tuple[Change, str]] = [
    (speech(samples=20), "speech.samples: expected 24 (hops of limits.max_enc positions), got 20"),
    (
        speech(positions=SoundPositions(window=9, stride=4)),
        "speech.samples: expected 28 (hops of limits.max_enc positions), got 24",
    ),
    (
        speech(positions=SoundPositions(window=2**62, stride=2**62)),
        f"speech.samples: expected {5 * 2**62} (hops of limits.max_enc positions), got 24",
    ),
    (
        lambda manifest: replace(manifest, limits=replace(manifest.limits, source_shape=(3, 10))),
        "limits.source_shape: expected none (kind is speech_seq2seq), got one",
    ),
    (speech(positions=None), "limits.source_shape: expected a value (kind is speech_seq2seq), got none"),
    (with_features, 'programs[0].methods: there is a "features", but speech.positions is given'),
    (
        encode(with_input(0, waveform(Dim("h", 1, 6), HOP))),
        "programs[0], encode, waveform, dim 1: expected 2 to 6 (hops of speech.samples), got 1 to 6",
    ),
    (
        encode(with_input(0, waveform(Dim("h", 2, 6), Dim(None, 5, 5)))),
        "programs[0], encode, waveform, dim 2: expected 4 (speech.positions.stride), got 5",
    ),
    (
        encode(with_input(1, integers("enc_lengths", BATCH))),
        "programs[0], encode, inputs: expected sample_lengths in place 1, got enc_lengths",
    ),
]


@pytest.mark.parametrize(("change", "fault"), SOUND_CASES)
def test_what_contradicts_the_sound_that_fits_is_refused(change: Change, fault: str) -> None:
    assert fault in refused(change(sound_manifest()))


def test_a_manifest_of_sound_of_any_length_reads_back_as_it_was() -> None:
    assert from_json(to_json(sound_manifest())) == sound_manifest()


def test_positions_are_those_of_three_convolutions_at_every_length() -> None:
    """Window 127, 7 and 3, stride 64, 3 and 2: Moonshine's."""

    def convolved(samples: int) -> int:
        frames = samples
        for window, stride in ((127, 64), (7, 3), (3, 2)):
            frames = (frames - window) // stride + 1 if frames >= window else 0
        return frames

    positions = SoundPositions(window=895, stride=384)
    assert [positions.count(samples) for samples in range(6000)] == [convolved(samples) for samples in range(6000)]


def test_the_longest_row_fills_whole_hops_and_never_has_a_position_too_many() -> None:
    for window in range(1, 12):
        for stride in range(1, 12):
            positions = SoundPositions(window, stride)
            for max_enc in (1, 2, 7):
                most = positions.most_samples(max_enc)
                assert positions.count(most) == max_enc
                assert positions.hops(most) * stride == most
                assert positions.count(positions.hops(window) * stride) == 1
