"""What a checkpoint does to sound before its encoder hears it: nothing, or it is refused in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from transformers import Wav2Vec2FeatureExtractor, WhisperFeatureExtractor

from exporter.planned import plan_export
from exporter.spec.faults import SpecError
from exporter.spec.recipe import Recipe
from tests.support.tiny_models import build


def checkpoint(directory: Path, extractor: Any | None) -> str:
    """The tiny Moonshine with a preprocessor of its own, or none."""
    build("moonshine").save_pretrained(directory)
    if extractor is not None:
        extractor.save_pretrained(directory)
    return str(directory)


def plain(**settings: Any) -> Wav2Vec2FeatureExtractor:
    return Wav2Vec2FeatureExtractor(**{"do_normalize": False, "return_attention_mask": True} | settings)


@pytest.mark.parametrize("extractor", [None, plain()], ids=["none", "plain"])
def test_sound_that_stays_as_it_is_is_planned_by_seconds(tmp_path: Path, extractor: Any | None) -> None:
    plan = plan_export(Recipe(checkpoint(tmp_path, extractor))).plan
    assert plan.max_enc == 1250
    assert plan.speech is not None
    assert plan.speech.samples >= 30 * plan.speech.sampling_rate
    assert plan.limits().source_shape is None


@pytest.mark.parametrize(
    ("extractor", "part"),
    [
        (plain(do_normalize=True), "its preprocessor has do_normalize True, the program hears sound with do_normalize"),
        (plain(sampling_rate=8_000), "has sampling_rate 8000, the program hears sound with sampling_rate 16000"),
        (WhisperFeatureExtractor(), "its preprocessor is a WhisperFeatureExtractor, expected a Wav2Vec2Feature"),
    ],
)
def test_a_preprocessor_that_changes_the_sound_is_refused_in_one_line(
    tmp_path: Path, extractor: Any, part: str
) -> None:
    with pytest.raises(SpecError) as refused:
        plan_export(Recipe(checkpoint(tmp_path, extractor)))
    assert part in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("max_enc", [1, 24, 3000])
def test_any_number_of_positions_may_be_asked_for(tmp_path: Path, max_enc: int) -> None:
    plan = plan_export(Recipe(checkpoint(tmp_path, plain()), max_enc=max_enc)).plan
    assert plan.speech is not None
    assert plan.speech.positions is not None
    assert plan.speech.positions.count(plan.speech.samples) == max_enc
