"""What a checkpoint does to sound before its encoder hears it: what programs do, or it is refused in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from transformers import Speech2TextFeatureExtractor, Wav2Vec2FeatureExtractor, WhisperFeatureExtractor

from exporter.planned import plan_export
from exporter.spec.faults import SpecError
from exporter.spec.recipe import Recipe
from tests.support.tiny_models import SOUND, build


def checkpoint(directory: Path, extractor: Any | None, case: str = "moonshine") -> str:
    """A tiny model that hears sound with a preprocessor of its own, or none."""
    build(case).save_pretrained(directory)
    if extractor is not None:
        extractor.save_pretrained(directory)
    return str(directory)


def plain(**settings: Any) -> Wav2Vec2FeatureExtractor:
    return Wav2Vec2FeatureExtractor(**{"do_normalize": False, "return_attention_mask": True} | settings)


def features(**settings: Any) -> Speech2TextFeatureExtractor:
    return Speech2TextFeatureExtractor(**{"feature_size": 20, "num_mel_bins": 20} | settings)


@pytest.mark.parametrize(
    ("case", "extractor", "positions"),
    [
        ("moonshine", None, 1250),
        ("moonshine", plain(), 1250),
        ("speech_to_text", None, 120),
        ("speech_to_text", features(), 120),
    ],
    ids=["moonshine-none", "moonshine-plain", "speech_to_text-none", "speech_to_text-features"],
)
def test_sound_is_planned_by_seconds_up_to_the_models_limit(
    tmp_path: Path, case: str, extractor: Any | None, positions: int
) -> None:
    plan = plan_export(Recipe(checkpoint(tmp_path, extractor, case))).plan
    assert plan.max_enc == positions
    assert plan.speech is not None
    assert plan.speech.samples >= positions * SOUND[case].stride
    assert plan.limits().source_shape is None


@pytest.mark.parametrize(
    ("case", "extractor", "part"),
    [
        (
            "moonshine",
            plain(do_normalize=True),
            "its preprocessor has do_normalize True, the program hears sound with do_normalize",
        ),
        (
            "moonshine",
            plain(sampling_rate=8_000),
            "has sampling_rate 8000, the program hears sound with sampling_rate 16000",
        ),
        (
            "moonshine",
            WhisperFeatureExtractor(),
            "its preprocessor is a WhisperFeatureExtractor, expected a Wav2Vec2Feature",
        ),
        ("speech_to_text", plain(), "is a Wav2Vec2FeatureExtractor, expected a Speech2TextFeatureExtractor"),
        ("speech_to_text", features(num_mel_bins=40), "num_mel_bins 40, the program hears sound with num_mel_bins 20"),
        ("speech_to_text", features(dither=4.0), "has dither 4.0, the program hears sound with dither 0"),
        ("speech_to_text", features(normalize_vars=False), "has normalize_vars False, the program hears sound with"),
    ],
)
def test_a_preprocessor_that_changes_the_sound_is_refused_in_one_line(
    tmp_path: Path, case: str, extractor: Any, part: str
) -> None:
    with pytest.raises(SpecError) as refused:
        plan_export(Recipe(checkpoint(tmp_path, extractor, case)))
    assert part in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("max_enc", [1, 24, 3000])
def test_any_number_of_positions_may_be_asked_for(tmp_path: Path, max_enc: int) -> None:
    plan = plan_export(Recipe(checkpoint(tmp_path, plain()), max_enc=max_enc)).plan
    assert plan.speech is not None
    assert plan.speech.positions is not None
    assert plan.speech.positions.count(plan.speech.samples) == max_enc
