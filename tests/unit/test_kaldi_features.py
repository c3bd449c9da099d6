"""The features that a program makes for Speech2Text equal those of transformers' extractor.

Shape legend: N samples, F frames, M mel bands.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from transformers import Speech2TextConfig, Speech2TextFeatureExtractor

from exporter.models.kaldi_features import HOP, WINDOW, KaldiFeatures, normalised
from exporter.spec.families import FAMILIES
from exporter.spec.hearing import stock_input

BANDS, RATE, SECONDS = 80, 16_000, 4
LEVEL_ERROR = 5e-4
"""Of features that are a few units large; what is quiet in a loud frame is a small difference of large products."""


def features_of(sound_N: Tensor) -> Tensor:
    """A program's features `[1, F, M]` of one row that lies in hops of an encoder."""
    samples, hop = len(sound_N), 4 * HOP
    hops = torch.nn.functional.pad(sound_N, (0, -samples % hop)).view(1, -1, hop)
    count = (samples - WINDOW) // HOP + 1
    features = normalised(KaldiFeatures(BANDS, RATE)(hops), torch.tensor([count]))
    assert not features[:, count:].any()
    return features[:, :count]


def sounds() -> dict[str, Tensor]:
    time = torch.arange(SECONDS * RATE) / RATE
    noise = torch.randn(SECONDS * RATE, generator=torch.Generator().manual_seed(0))
    voice = torch.sin(440 * torch.sin(3 * time) * time) + 0.3 * torch.sin(3000 * time * time)
    return {
        "noise": 0.1 * noise,
        "noise that falls": noise * torch.linspace(0.4, 0.001, len(noise)),
        "a voice in noise": 0.3 * voice + 0.002 * noise,
        "away from zero": 0.2 + 0.05 * noise,
        "a pause": torch.cat([noise[:20_000], torch.zeros(20_000), noise[20_000:]]) * 0.2,
        "two frames": 0.1 * noise[: WINDOW + HOP],
        "short of a frame": 0.1 * noise[: WINDOW + 4 * HOP - 1],
    }


@pytest.mark.parametrize("name", sounds())
def test_a_rows_features_equal_those_of_transformers(name: str) -> None:
    """Within what the extractor's own sums in float32 leave open, and closer where they are made in float64."""
    sound_N, sound = sounds()[name], FAMILIES["speech_to_text"].sound
    assert sound is not None
    found = features_of(sound_N)
    stock = Speech2TextFeatureExtractor()(sound_N.numpy(), sampling_rate=RATE, return_tensors="pt").input_features
    exact = stock_input(Speech2TextConfig(), sound, sound_N)
    assert found.shape == stock.shape == exact.shape
    assert float((found - stock).abs().max()) < LEVEL_ERROR
    assert float((found - exact).abs().max()) < LEVEL_ERROR
    assert float((found - exact).square().mean()) <= float((stock - exact).square().mean()) + 1e-9


def test_a_window_one_sample_late_differs() -> None:
    """The control."""
    sound_N = sounds()["a voice in noise"]
    assert float((features_of(sound_N[1:])[:, :300] - features_of(sound_N)[:, :300]).abs().max()) > 10 * LEVEL_ERROR


@pytest.mark.parametrize("samples", [WINDOW, WINDOW + HOP - 1, RATE])
def test_what_does_not_vary_has_features_of_zero(samples: int) -> None:
    """A row of one frame, and digital silence: transformers divides 0 by 0 there."""
    sound_N = torch.full((samples,), 0.25) if samples < RATE else torch.zeros(samples)
    assert float(features_of(sound_N).abs().max()) < 0.05
