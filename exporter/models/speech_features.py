"""Whisper's front end as a method of the program: a waveform to log-mel features.

The Fourier transform of a frame is a product with a constant matrix that holds the window too, and frames are slices of
the waveform laid side by side: everything runs where the model's own products run.

Shape legend: b rows, N samples, P padded samples, H hops, F frames, W window samples, C cosine and sine values, M mel
bins.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

FLOOR = 1e-10
DECADES = 8.0
"""What lies further below the loudest value of a row is cut off; powers of ten."""


@dataclass(frozen=True, eq=False)
class FrontEnd:
    """A feature extractor in numbers.

    Attributes:
        sampling_rate: samples per second.
        samples: N, what one row takes; shorter sound is followed by zeros.
        window: W, samples of a Fourier transform.
        hop: samples from one frame to the next.
        frames: F.
        mel_MQ: float32, the weight of each of the W // 2 + 1 frequencies in each mel bin.
    """

    sampling_rate: int
    samples: int
    window: int
    hop: int
    frames: int
    mel_MQ: Tensor


def front_end_of(extractor: Any | None, source_shape: tuple[int, ...] | None) -> FrontEnd | None:
    """The front end of a Whisper extractor; None for any other, and for settings that a method cannot repeat.

    Those are random dither, padding that is not zeros, and features of another shape than the encoder takes.
    """
    from transformers import WhisperFeatureExtractor

    if extractor is None or type(extractor) is not WhisperFeatureExtractor:
        return None
    if extractor.dither or extractor.padding_value:
        return None
    samples, window, hop = int(extractor.n_samples), int(extractor.n_fft), int(extractor.hop_length)
    front_end = FrontEnd(
        sampling_rate=int(extractor.sampling_rate),
        samples=samples,
        window=window,
        hop=hop,
        frames=(samples - window % 2) // hop,
        mel_MQ=torch.from_numpy(extractor.mel_filters.T).float().contiguous(),
    )
    fits = (len(front_end.mel_MQ), front_end.frames) == source_shape
    return front_end if fits and samples > window else None


class LogMelFeatures(nn.Module):
    """`features(waveform[b, N]) -> features[b, M, F]`, as the extractor computes them.

    Frames are centred, the waveform is mirrored at both ends, and the frame centred behind the last sample is left out.
    """

    def __init__(self, front_end: FrontEnd) -> None:
        super().__init__()
        self.front_end = front_end
        self.fourier_CW = nn.Parameter(windowed_fourier(front_end.window), requires_grad=False)
        # Power is the sum of two squares, so both halves of a transform have the same weights.
        self.mel_MC = nn.Parameter(front_end.mel_MQ.repeat(1, 2), requires_grad=False)

    def forward(self, waveform_bN: Tensor) -> Tensor:
        spectrum_bFC = F.linear(self.frames(waveform_bN), self.fourier_CW)
        power_bFM = F.linear(spectrum_bFC * spectrum_bFC, self.mel_MC)
        level_bFM = torch.log10(torch.clamp(power_bFM, min=FLOOR))
        loudest = level_bFM.amax(dim=(1, 2), keepdim=True)
        level_bFM = (torch.maximum(level_bFM, loudest - DECADES) + 4.0) * 0.25
        return level_bFM.transpose(1, 2).contiguous()

    def frames(self, waveform_bN: Tensor) -> Tensor:
        """Frames `[b, F, W]`: hop by hop, as many slices of the padded waveform as a window touches."""
        window, hop, count = self.front_end.window, self.front_end.hop, self.front_end.frames
        pieces = math.ceil(window / hop)
        padded_bP = self.mirrored(waveform_bN, (count - 1 + pieces) * hop)
        hops_bHP = padded_bP.unflatten(1, (count - 1 + pieces, hop))
        slices = [hops_bHP[:, piece : piece + count, : window - piece * hop] for piece in range(pieces)]
        return torch.cat(slices, dim=2)

    def mirrored(self, waveform_bN: Tensor, length: int) -> Tensor:
        """`length` samples that begin half a window before the waveform, mirrored at its first and last sample."""
        before = self.front_end.window // 2
        after = length - before - self.front_end.samples
        first = waveform_bN[:, 1 : before + 1].flip(1)
        if after <= 0:
            return torch.cat([first, waveform_bN[:, : self.front_end.samples + after]], dim=1)
        last = waveform_bN[:, -after - 1 : -1].flip(1)
        return torch.cat([first, waveform_bN, last], dim=1)


def windowed_fourier(window: int) -> Tensor:
    """float32 `[C, W]`: cosines, then sines, of the W // 2 + 1 frequencies, each times the periodic Hann window."""
    time = torch.arange(window, dtype=torch.float64)
    hann = 0.5 - 0.5 * torch.cos(2.0 * math.pi * time / window)
    turns = torch.outer(torch.arange(window // 2 + 1, dtype=torch.float64), time) % window
    angles = 2.0 * math.pi * turns / window
    return (torch.cat([torch.cos(angles), torch.sin(angles)]) * hann).float()
