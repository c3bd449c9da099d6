"""The features of Speech2Text, made by `encode`: sound to log-mel energies as Kaldi has them, each row normalised.

A frame loses its mean and its low frequencies, is weighed by a window and transformed; products do what is linear, so
everything runs where the model's own products run. Each mel band is then normalised over the frames that a row's own
samples make.

Shape legend: b rows, h hops of the encoder, S samples of one, F frames, W window samples, C cosine and sine values,
M mel bands.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.audio_utils import mel_filter_bank

WINDOW, HOP, TRANSFORM = 400, 160, 512
"""Samples of a frame, from one frame to the next, and of the Fourier transform."""
LOWEST = 20
"""Hertz; the highest frequency is half the sampling rate."""
EMPHASIS = 0.97
FLOOR = torch.finfo(torch.float32).eps / 2.0**30
"""Kaldi counts a sample of 1.0 as 2**15. Normalising takes this factor out again; here it is never put in, but here."""
LEAST_VARIANCE = 1e-8
"""A band that varies less does not vary: what would be left of it is rounding."""


class KaldiFeatures(nn.Module):
    """`[b, h, S] -> [b, F, M]`: a frame for each `HOP` samples, of which those past a row's own are to be ignored."""

    def __init__(self, bands: int, sampling_rate: int) -> None:
        super().__init__()
        mel_QM = mel_filter_bank(
            num_frequency_bins=TRANSFORM // 2 + 1,
            num_mel_filters=bands,
            min_frequency=LOWEST,
            max_frequency=sampling_rate // 2,
            sampling_rate=sampling_rate,
            mel_scale="kaldi",
            triangularize_in_mel_space=True,
        )
        # Power is the sum of two squares, so both halves of a transform have the same weights.
        self.mel_MC = nn.Parameter(torch.from_numpy(mel_QM.T).float().repeat(1, 2).contiguous(), requires_grad=False)
        self.fourier_CW = nn.Parameter(windowed_fourier(), requires_grad=False)

    def forward(self, hops_bhS: Tensor) -> Tensor:
        frames_bFW = overlapping(hops_bhS.reshape(hops_bhS.shape[0], -1, HOP))
        frames_bFW = frames_bFW - frames_bFW.mean(dim=-1, keepdim=True)
        # The window is 0 at the first sample, which has none before it.
        emphasised_bFW = frames_bFW[:, :, 1:] - EMPHASIS * frames_bFW[:, :, :-1]
        spectrum_bFC = functional.linear(emphasised_bFW, self.fourier_CW)
        power_bFM = functional.linear(spectrum_bFC * spectrum_bFC, self.mel_MC)
        return torch.log(torch.clamp(power_bFM, min=FLOOR))


def overlapping(steps_bFS: Tensor) -> Tensor:
    """Frames `[b, F, W]` that begin at each of these steps; zeros lie behind the last."""
    rows, count, size = steps_bFS.shape
    more = math.ceil(WINDOW / HOP) - 1
    silence = steps_bFS.new_zeros(1, more, size).expand(rows, -1, -1)
    padded = torch.cat([steps_bFS, silence], dim=1)
    slices = [padded[:, piece : piece + count, : WINDOW - piece * HOP] for piece in range(more + 1)]
    return torch.cat(slices, dim=2)


def windowed_fourier() -> Tensor:
    """float32 `[C, WINDOW - 1]`: cosines, then sines, times Kaldi's window, for a frame without its first sample."""
    time = torch.arange(1, WINDOW, dtype=torch.float64)
    povey = (0.5 - 0.5 * torch.cos(2.0 * math.pi * time / (WINDOW - 1))) ** 0.85
    turns = torch.outer(torch.arange(TRANSFORM // 2 + 1, dtype=torch.float64), time) % TRANSFORM
    angles = 2.0 * math.pi * turns / TRANSFORM
    return (torch.cat([torch.cos(angles), torch.sin(angles)]) * povey).float()


def normalised(features_bFM: Tensor, counts_b: Tensor) -> Tensor:
    """Each band with mean 0 and deviation 1 over a row's first `counts_b` frames, and 0 behind them."""
    inside_bF1 = inside(features_bFM, counts_b)
    share_bF1 = inside_bF1 / counts_b.clamp(min=1)[:, None, None]
    mean_b1M = (features_bFM * share_bF1).sum(dim=1, keepdim=True)
    centred_bFM = (features_bFM - mean_b1M) * inside_bF1
    variance_b1M = (centred_bFM * centred_bFM * share_bF1).sum(dim=1, keepdim=True)
    return centred_bFM * torch.rsqrt(variance_b1M.clamp(min=LEAST_VARIANCE))


def inside(frames_bFC: Tensor, counts_b: Tensor) -> Tensor:
    """float32 `[b, F, 1]`: 1 at a row's first `counts_b` frames, 0 behind them."""
    # Three dimensions before it is a float: XNNPACK takes an unsqueeze to two sizes that vary, and then fails.
    places_F1 = torch.arange(frames_bFC.shape[1])[:, None]
    return (places_F1 < counts_b[:, None, None]).to(torch.float32)
