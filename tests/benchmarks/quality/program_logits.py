"""Logits of a bundle's program over given tokens, every position, as a model in eager PyTorch gives them.

Shape legend: T tokens, V vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor

from runtime_shims.contract.bundle_reader import Bundle
from runtime_shims.reference.loading import load_program
from runtime_shims.reference.program import StepInputs


class TeacherForcing:
    """A decoder-only program that is fed a known text, a verification step at a time."""

    def __init__(self, bundle: Bundle) -> None:
        self._program = load_program(bundle, bundle.manifest.programs[0])
        self._width = bundle.manifest.limits.max_logit_rows

    def logits(self, tokens_T: list[int]) -> Tensor:
        """float32 `[T, V]`: after each token."""
        steps = [tokens_T[start : start + self._width] for start in range(0, len(tokens_T), self._width)]
        rows, position = [], 0
        for step in steps:
            rows.append(self._step(step, position))
            position += len(step)
        return torch.cat(rows)

    def _step(self, tokens: list[int], position: int) -> Tensor:
        width = len(tokens)
        inputs = StepInputs(
            tokens=torch.tensor([tokens]),
            positions=torch.tensor([position]),
            step_lengths=torch.tensor([width]),
            logit_rows=torch.arange(width)[None],
            enc_lengths=None,
        )
        return self._program.decode(inputs)[0].clone()


def divergence(reference_TV: Tensor, other_TV: Tensor) -> tuple[float, float]:
    """Mean KL divergence in nats from `reference`, and the share of positions whose best token is the same."""
    expected, found = reference_TV.log_softmax(-1), other_TV.log_softmax(-1)
    kl_T = (expected.exp() * (expected - found)).sum(-1)
    agree_T = reference_TV.argmax(-1) == other_TV.argmax(-1)
    return float(kl_T.mean()), float(agree_T.float().mean())
