"""What a checkpoint does to sound before its encoder hears it, held against what programs do to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from exporter.spec.families import Family, Sound
from exporter.spec.faults import ModelSourceError, raise_if_any

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PretrainedConfig

WAVEFORM_EXTRACTOR = "Wav2Vec2FeatureExtractor"
"""transformers' class for sound that stays a waveform."""
FEATURE_EXTRACTOR = "Speech2TextFeatureExtractor"
"""transformers' class for features of any length, which programs make themselves."""


def published_extractor(config: PretrainedConfig, family: Family) -> Any:
    """The extractor of a published geometry."""
    from transformers import Wav2Vec2FeatureExtractor, WhisperFeatureExtractor

    if family.sound is None:
        return WhisperFeatureExtractor(feature_size=config.num_mel_bins)
    if family.sound.bands is not None:
        return _feature_extractor(config, family.sound)
    rate = family.sound.sampling_rate
    return Wav2Vec2FeatureExtractor(sampling_rate=rate, do_normalize=False, return_attention_mask=True)


def require_known_sound(name: str, extractor: Any | None, config: PretrainedConfig, sound: Sound) -> None:
    """Refuse an extractor that does anything else to sound than programs do; none means that it does the same.

    Raises:
        ModelSourceError: names every setting that a program does not repeat.
    """
    if extractor is None:
        return
    found = type(extractor).__name__
    expected = WAVEFORM_EXTRACTOR if sound.bands is None else FEATURE_EXTRACTOR
    if found != expected:
        raise ModelSourceError(name, [f"its preprocessor is a {found}, expected a {expected}"])
    wanted: dict[str, object] = {"sampling_rate": sound.sampling_rate}
    if sound.bands is None:
        wanted |= {"do_normalize": False, "feature_size": 1}
    else:
        wanted |= {"num_mel_bins": getattr(config, sound.bands), "dither": 0}
        wanted |= dict.fromkeys(("do_ceptral_normalize", "normalize_means", "normalize_vars"), True)
    faults = [
        f"its preprocessor has {key} {getattr(extractor, key)}, the program hears sound with {key} {value}"
        for key, value in wanted.items()
        if getattr(extractor, key) != value
    ]
    raise_if_any(ModelSourceError, name, faults)


def stock_input(config: PretrainedConfig, sound: Sound, waveform_N: Tensor) -> Tensor:
    """What transformers gives the encoder for one row of sound: the waveform `[1, N]`, or features `[1, F, M]`.

    The extractor adds up a row's frames one by one in float32, which costs 1e-4 in half a minute; here its function is
    given float64. Where it divides 0 by 0, because a row has a single frame, programs and this give 0.
    """
    import numpy as np
    import torch

    if sound.bands is None:
        return waveform_N[None]
    extractor = _feature_extractor(config, sound, do_ceptral_normalize=False)
    answer = extractor(waveform_N.numpy(), sampling_rate=sound.sampling_rate, return_tensors="np")
    features_FM = answer.input_features[0].astype(np.float64)
    with np.errstate(invalid="ignore"):
        features_FM = extractor.utterance_cmvn(features_FM, len(features_FM))
    return torch.from_numpy(features_FM)[None].nan_to_num(0.0)


def _feature_extractor(config: PretrainedConfig, sound: Sound, **settings: Any) -> Any:
    from transformers import Speech2TextFeatureExtractor

    bands, rate = getattr(config, str(sound.bands)), sound.sampling_rate
    return Speech2TextFeatureExtractor(feature_size=bands, num_mel_bins=bands, sampling_rate=rate, **settings)
