"""The hidden states that an assistant drafts from: those behind the logits of each row's last step.

Shape legend: B batch rows, R logit rows, C width of a hidden state.
"""

from __future__ import annotations

import torch
from torch import Tensor

from runtime_shims.contract.manifest import Limits
from runtime_shims.reference.step_buffers import Step


class HiddenStates:
    """States float32 [max_batch, max_logit_rows, C], allocated once, and the position of each row's first one."""

    def __init__(self, limits: Limits, width: int) -> None:
        """`width` is C; 0 without an assistant."""
        self.width = width
        self._states = torch.zeros(limits.max_batch, limits.max_logit_rows, width)
        self._first: list[int | None] = [None] * limits.max_batch

    def keep(self, step: Step, states_BRC: Tensor) -> None:
        """Copy what a step gave; rows without tokens keep what they had."""
        for row, tokens in enumerate(step.tokens):
            if tokens:
                self._states[row, : states_BRC.shape[1]] = states_BRC[row]
                self._first[row] = step.positions[row] + step.logit_rows[row][0]

    def at(self, row: int, position: int) -> Tensor | None:
        """The state [C] of a row at a position, a copy; None where its last step did not bring it."""
        first = self._first[row]
        offset = -1 if first is None else position - first
        return self._states[row, offset].clone() if 0 <= offset < self._states.shape[1] else None

    def forget(self, row: int) -> None:
        self._first[row] = None
