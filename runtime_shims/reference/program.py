"""What a session asks of a loaded program, whatever backend runs it.

Shape legend: B batch rows of this call, T step tokens, R logit rows, E encoder positions, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from runtime_shims.contract.errors import CapacityExceeded, UserInputError
from runtime_shims.contract.manifest import Limits


@dataclass(frozen=True)
class StepInputs:
    """The arguments of one `decode` call, in the program's order. All are contiguous int64.

    tokens       [B, T]  the step's tokens per row; those past the row's step length are padding
    positions    [B]     position of each row's first token
    step_lengths [B]     real tokens per row, 0..T; 0 is an idle row
    logit_rows   [B, R]  which of the row's step tokens to project to logits, 0..T-1
    enc_lengths  [B]     encoder positions each row attends to; None for decoder-only programs
    """

    tokens: Tensor
    positions: Tensor
    step_lengths: Tensor
    logit_rows: Tensor
    enc_lengths: Tensor | None

    def __post_init__(self) -> None:
        """Raise UserInputError unless ranks, dtypes, layouts and batch sizes agree."""
        ranks = {"tokens": 2, "positions": 1, "step_lengths": 1, "logit_rows": 2, "enc_lengths": 1}
        for name, rank in ranks.items():
            tensor = getattr(self, name)
            if tensor is None and name == "enc_lengths":
                continue
            if tensor.dtype != torch.int64 or tensor.dim() != rank or not tensor.is_contiguous():
                raise UserInputError(
                    f"{name} must be a contiguous int64 tensor of rank {rank}, "
                    f"got {tensor.dtype} of shape {tuple(tensor.shape)}"
                )
            if tensor.shape[0] != self.rows:
                raise UserInputError(f"{name} has {tensor.shape[0]} rows, tokens has {self.rows}")

    @property
    def rows(self) -> int:
        """B, the batch rows of this call."""
        return self.tokens.shape[0]

    @property
    def width(self) -> int:
        """T, the step tokens per row."""
        return self.tokens.shape[1]

    def as_tuple(self) -> tuple[Tensor, ...]:
        """The tensors in the order of the program's inputs."""
        inputs = (self.tokens, self.positions, self.step_lengths, self.logit_rows)
        return inputs if self.enc_lengths is None else (*inputs, self.enc_lengths)

    def check_limits(self, limits: Limits) -> None:
        """Raise CapacityExceeded when a size is outside what the program was compiled for.

        ExecuTorch bounds the elements of an input and not each dimension: it runs [1, 9] in a program
        of at most [4, 8] without complaint. So the bounds are checked here.
        """
        sizes = {
            "batch rows (--max-batch)": (self.rows, limits.max_batch),
            "step tokens (--prefill-chunk, --max-draft)": (self.width, limits.max_step),
            "logit rows (--max-draft)": (self.logit_rows.shape[1], limits.max_logit_rows),
        }
        for what, (given, allowed) in sizes.items():
            if not 1 <= given <= allowed:
                raise CapacityExceeded(f"a step of {given} {what} was asked for; 1 to {allowed} fit")


@dataclass(frozen=True)
class DraftInputs:
    """The arguments of one `draft` call, in the program's order. All are contiguous.

    tokens       int64 [B, 1]    the token behind which to draft
    hidden       float32 [B, C]  the state of the token before it
    positions    int64 [B]       position of the last token that the caches hold
    step_lengths int64 [B]       1, or 0 for an idle row
    """

    tokens: Tensor
    hidden: Tensor
    positions: Tensor
    step_lengths: Tensor

    def as_tuple(self) -> tuple[Tensor, ...]:
        """The tensors in the order of the program's inputs."""
        return self.tokens, self.hidden, self.positions, self.step_lengths


class Program(Protocol):
    """A loaded program: caches inside, one call per step.

    A call either succeeds or raises FixedCapacityError; after an error the caches are undefined until
    `reset`. Tensors that a call returns are valid until the next call or reset.
    """

    def encode(self, source: Tensor, lengths: Tensor) -> None:
        """Fill the cross caches of rows 0..B-1.

        source   int64 [B, E] token ids, float32 [B, *source_shape] features, or sound in hops, float32 [B, h, S]
        lengths  int64 [B] encoder output positions per row; of sound, samples
        """
        ...

    def features(self, waveform: Tensor) -> Tensor:
        """What `encode` takes, float32 [B, *source_shape], of sound float32 [B, samples]; the caller's own memory.

        For programs whose manifest has `speech` without `positions`. No state is read or written.
        """
        ...

    def decode(self, inputs: StepInputs) -> Tensor:
        """Write the step's keys and values, attend, return logits float32 [B, R, V]."""
        ...

    def hidden(self) -> Tensor:
        """The states behind the logits of the last `decode`, float32 [B, R, C]; valid as long as its logits.

        For programs whose manifest has an `assistant`.
        """
        ...

    def draft(self, inputs: DraftInputs) -> tuple[Tensor, Tensor]:
        """One draft per row by the assistant: logits float32 [B, 1, V] and next states float32 [B, C].

        Nothing is written. For programs whose manifest has an `assistant`.
        """
        ...

    def reset(self) -> None:
        """Return to the state right after loading, caches empty."""
        ...
