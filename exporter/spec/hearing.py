"""What a checkpoint does to sound before its encoder hears it, held against programs that take sound as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from exporter.spec.families import Family, Sound
from exporter.spec.faults import ModelSourceError, raise_if_any

if TYPE_CHECKING:
    from transformers import PretrainedConfig

EXTRACTOR = "Wav2Vec2FeatureExtractor"
"""transformers' class for sound that stays a waveform."""


def published_extractor(config: PretrainedConfig, family: Family) -> Any:
    """The extractor of a published geometry."""
    from transformers import Wav2Vec2FeatureExtractor, WhisperFeatureExtractor

    if family.sound is None:
        return WhisperFeatureExtractor(feature_size=config.num_mel_bins)
    rate = family.sound.sampling_rate
    return Wav2Vec2FeatureExtractor(sampling_rate=rate, do_normalize=False, return_attention_mask=True)


def require_plain_sound(name: str, extractor: Any | None, sound: Sound) -> None:
    """Refuse an extractor that changes the sound; none means that nothing does.

    Raises:
        ModelSourceError: names every setting that a program does not repeat.
    """
    if extractor is None:
        return
    found = type(extractor).__name__
    if found != EXTRACTOR:
        raise ModelSourceError(name, [f"its preprocessor is a {found}, expected a {EXTRACTOR}"])
    wanted = {"do_normalize": False, "feature_size": 1, "sampling_rate": sound.sampling_rate}
    faults = [
        f"its preprocessor has {key} {getattr(extractor, key)}, the program hears sound with {key} {value}"
        for key, value in wanted.items()
        if getattr(extractor, key) != value
    ]
    raise_if_any(ModelSourceError, name, faults)
