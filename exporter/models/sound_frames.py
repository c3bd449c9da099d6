"""The front of an encoder that hears a waveform of any length: its convolutions, and a norm over what each row has.

The modules stand in for a model's own, take frames before channels, and give rows that are padded the numbers that they
have alone. A convolution without padding is one product per block of `stride` frames that its window touches:
everything runs where the model's own products run, at any length.

Shape legend: b rows, h hops, S samples of a hop, F frames, C channels, N channels and G frames of a
result.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from exporter.cache.attention_binding import StepContext


class StridedProducts(nn.Module):
    """A convolution along time: `[b, F, C] -> [b, G, N]`, F whole blocks of `stride` frames."""

    def __init__(self, convolution: nn.Conv1d) -> None:
        super().__init__()
        (self.stride,) = convolution.stride
        blocks = convolution.weight.detach().transpose(1, 2).split(self.stride, dim=1)
        parts = (nn.Parameter(block.flatten(1).contiguous(), requires_grad=False) for block in blocks)
        self.weights = nn.ParameterList(parts)
        self.bias = convolution.bias

    def forward(self, frames_bFC: Tensor) -> Tensor:
        rows, frames, channels = frames_bFC.shape
        blocks = frames_bFC.reshape(rows, frames // self.stride, self.stride * channels)
        count = blocks.shape[1] - len(self.weights) + 1
        total, *others = (
            functional.linear(blocks[:, place : place + count, : weight.shape[1]], weight, None if place else self.bias)
            for place, weight in enumerate(self.weights)
        )
        for part in others:
            total = total + part
        return total


class FirstFrames(nn.Module):
    """The first convolution, over hops: `[b, 1, h, S] -> [b, h * S / stride, N]`.

    A block of zeros behind the sound makes one frame more than the sound has, so that the next convolution too takes
    whole blocks. No row is heard there.
    """

    def __init__(self, convolution: nn.Conv1d) -> None:
        super().__init__()
        self.products = StridedProducts(convolution)

    def forward(self, hops_b1hS: Tensor) -> Tensor:
        samples_bF = hops_b1hS.flatten(1)
        silence = samples_bF.new_zeros(1, self.products.stride).expand(samples_bF.shape[0], -1)
        return self.products(torch.cat([samples_bF, silence], dim=1)[:, :, None])


class LastFrames(nn.Module):
    """The last convolution; its result is turned to channels before frames, as the model takes it."""

    def __init__(self, convolution: nn.Conv1d) -> None:
        super().__init__()
        self.products = StridedProducts(convolution)

    def forward(self, frames_bFC: Tensor) -> Tensor:
        return self.products(frames_bFC).transpose(1, 2)


class NormOfRow(nn.Module):
    """A group norm of one group over the frames that a row's own samples make: `[b, F, C] -> [b, F, C]`.

    `window` and `stride` are those of the convolution before it.
    """

    def __init__(self, norm: nn.GroupNorm, convolution: nn.Conv1d, step: StepContext) -> None:
        super().__init__()
        if norm.num_groups != 1:
            raise ValueError(f"a norm over all of a row has 1 group, not {norm.num_groups}")
        self.weight, self.bias, self.epsilon = norm.weight, norm.bias, norm.eps
        self.window, self.stride = convolution.kernel_size[0], convolution.stride[0]
        self.step = step

    def forward(self, frames_bFC: Tensor) -> Tensor:
        count_b1 = positions_of(self.step.sample_lengths, self.window, self.stride)[:, None]
        inside_bF = torch.arange(frames_bFC.shape[1]) < count_b1
        share_bF1 = (inside_bF / count_b1.clamp(min=1))[:, :, None]
        mean_b11 = (frames_bFC.mean(dim=-1, keepdim=True) * share_bF1).sum(dim=1, keepdim=True)
        centred_bFC = frames_bFC - mean_b11
        squares_bF1 = (centred_bFC * centred_bFC).mean(dim=-1, keepdim=True)
        variance_b11 = (squares_bF1 * share_bF1).sum(dim=1, keepdim=True)
        return centred_bFC * torch.rsqrt(variance_b11 + self.epsilon) * self.weight + self.bias


def positions_of(sample_lengths_b: Tensor, window: int, stride: int) -> Tensor:
    """What rows of so many samples become, int64 `[b]`: 0 of a row shorter than `window`."""
    reaching_b = (sample_lengths_b - (window - stride)).clamp(min=0)
    return torch.div(reaching_b, stride, rounding_mode="floor")


def hear_rows(encoder: nn.Module, step: StepContext) -> None:
    """Put these modules in the place of an encoder's three convolutions and the norm behind the first."""
    first = encoder.conv1
    encoder.groupnorm = NormOfRow(encoder.groupnorm, first, step)
    encoder.conv1 = FirstFrames(first)
    encoder.conv2 = StridedProducts(encoder.conv2)
    encoder.conv3 = LastFrames(encoder.conv3)


def reach_of(encoder: nn.Module) -> tuple[int, int]:
    """The samples that one position hears, and how far apart positions are."""
    window, stride = 1, 1
    for convolution in (encoder.conv1, encoder.conv2, encoder.conv3):
        window += (convolution.kernel_size[0] - 1) * stride
        stride *= convolution.stride[0]
    return window, stride
