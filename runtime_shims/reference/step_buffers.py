"""Preallocated memory for the step tensors: one allocation per session, contiguous views per call.

Shape legend: B batch rows of this call, T step tokens, R logit rows, E encoder positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from runtime_shims.contract.manifest import Limits
from runtime_shims.reference.program import StepInputs


@dataclass(frozen=True)
class Step:
    """One step in plain integers, one entry per row of the call.

    tokens       the row's tokens, ragged; empty is an idle row
    positions    position of each row's first token
    logit_rows   step tokens to project, the same number R >= 1 for every row
    enc_lengths  encoder positions per row; None for decoder-only programs
    """

    tokens: Sequence[Sequence[int]]
    positions: Sequence[int]
    logit_rows: Sequence[Sequence[int]]
    enc_lengths: Sequence[int] | None


class StepBuffers:
    """Flat int64 storage sized to the limits. Every call narrows it to the sizes of the step.

    Views of a flat buffer are contiguous at any size; slices of a [max_batch, max_step] tensor are
    not, and ExecuTorch refuses those.
    """

    def __init__(self, limits: Limits) -> None:
        """Allocate once for the largest step and the largest source."""
        rows = limits.max_batch
        self._tokens = torch.zeros(rows * limits.max_step, dtype=torch.int64)
        self._logit_rows = torch.zeros(rows * limits.max_logit_rows, dtype=torch.int64)
        self._positions = torch.zeros(rows, dtype=torch.int64)
        self._step_lengths = torch.zeros(rows, dtype=torch.int64)
        self._enc_lengths = torch.zeros(rows, dtype=torch.int64)
        source_positions = 0 if limits.max_enc is None or limits.source_shape else limits.max_enc
        self._source = torch.zeros(rows * source_positions, dtype=torch.int64)  # of text

    def fill(self, step: Step) -> StepInputs:
        """Write `step` into the buffers. The views returned are valid until the next fill."""
        rows = len(step.tokens)
        width = max(len(row_tokens) for row_tokens in step.tokens)
        tokens_BT = self._tokens[: rows * width].view(rows, width)
        _write_ragged(tokens_BT, step.tokens)
        logit_rows_BR = self._logit_rows[: rows * len(step.logit_rows[0])].view(rows, -1)
        _write_ragged(logit_rows_BR, step.logit_rows)
        step_lengths = [len(row_tokens) for row_tokens in step.tokens]
        return StepInputs(
            tokens=tokens_BT,
            positions=_write(self._positions[:rows], step.positions),
            step_lengths=_write(self._step_lengths[:rows], step_lengths),
            logit_rows=logit_rows_BR,
            enc_lengths=None if step.enc_lengths is None else self.lengths(step.enc_lengths),
        )

    def source(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Ragged source token ids as int64 [B, E], E the longest row, padded with 0."""
        width = max(len(row) for row in rows)
        source_BE = self._source[: len(rows) * width].view(len(rows), width)
        _write_ragged(source_BE, rows)
        return source_BE

    def lengths(self, lengths: Sequence[int]) -> Tensor:
        """Encoder lengths, or samples of sound, as int64 [B]."""
        return _write(self._enc_lengths[: len(lengths)], lengths)


def _write(view: Tensor, values: Sequence[int]) -> Tensor:
    view.numpy()[:] = values
    return view


def _write_ragged(view: Tensor, rows: Sequence[Sequence[int]]) -> None:
    """Write each row from the left and zeros behind it."""
    array = view.numpy()
    array[:] = 0
    for target, row in zip(array, rows, strict=True):
        target[: len(row)] = row
