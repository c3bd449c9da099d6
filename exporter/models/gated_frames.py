"""The front of an encoder that hears features (Speech2Text): the features themselves, and convolutions with gates.

These convolutions pad with zeros. What lies behind a row's own frames is set to zero before each, so that a row beside
a longer one gives the numbers that it gives alone, which padded batches of transformers do not.

Shape legend: b rows, h hops, S samples of a hop, F frames, C channels, N channels and G frames of a result.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from exporter.cache.attention_binding import StepContext

from .kaldi_features import HOP, WINDOW, KaldiFeatures, inside, normalised
from .sound_frames import StridedProducts, positions_of


class GatedConvolution(nn.Module):
    """`[b, F, C] -> [b, G, N]`, F being G times the stride: one half of the channels opens and closes the other."""

    def __init__(self, convolution: nn.Conv1d) -> None:
        super().__init__()
        self.products = StridedProducts(convolution)
        (self.padding,) = convolution.padding

    def forward(self, frames_bFC: Tensor) -> Tensor:
        rows, _, channels = frames_bFC.shape
        edge = frames_bFC.new_zeros(1, self.padding, channels).expand(rows, -1, -1)
        values_bGN, gates_bGN = self.products(torch.cat([edge, frames_bFC, edge], dim=1)).chunk(2, dim=-1)
        return values_bGN * torch.sigmoid(gates_bGN)


class HeardFrames(nn.Module):
    """`[b, h, S] -> [b, h, N]`: in place of the convolutions, which take features and know no lengths."""

    def __init__(self, subsampler: nn.Module, features: KaldiFeatures, step: StepContext) -> None:
        super().__init__()
        self.features = features
        self.convolutions = nn.ModuleList(GatedConvolution(layer) for layer in subsampler.conv_layers)
        self.step = step

    def forward(self, hops_bhS: Tensor) -> Tensor:
        lengths_b, stride = self.step.sample_lengths, HOP
        frames_bFC = normalised(self.features(hops_bhS), positions_of(lengths_b, WINDOW, stride))
        for place, convolution in enumerate(self.convolutions):
            if place:
                frames_bFC = frames_bFC * inside(frames_bFC, positions_of(lengths_b, WINDOW, stride))
            frames_bFC = convolution(frames_bFC)
            stride *= convolution.products.stride
        return frames_bFC


def hear_features(encoder: nn.Module, sampling_rate: int, step: StepContext) -> None:
    """Put these modules in the place of an encoder's convolutions; it then takes sound in hops."""
    encoder.conv = HeardFrames(encoder.conv, KaldiFeatures(encoder.conv.in_channels, sampling_rate), step)


def reach_of(encoder: nn.Module) -> tuple[int, int]:
    """The samples that make the first position, and how far apart positions are."""
    stride = HOP
    for convolution in encoder.conv.conv_layers:
        stride *= convolution.stride[0]
    return WINDOW, stride
