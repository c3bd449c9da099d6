"""One session: a loaded program reused for request after request, nothing allocated per step.

The verbs: `begin` (check everything, run the encoder), `prefill` (run the prompts in chunks), `step`
(write a few tokens per row, get their logits), `rollback` (take tokens back), `reset`.

Shape legend: B rows of the request, R step tokens with logits, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from runtime_shims.contract.bundle_reader import Bundle
from runtime_shims.contract.cache_geometry import CacheGeometry
from runtime_shims.contract.errors import CapacityExceeded, FixedCapacityError, UserInputError
from runtime_shims.contract.manifest import Limits, Manifest
from runtime_shims.contract.sequence_cursor import SequenceCursor
from runtime_shims.reference.program import Program
from runtime_shims.reference.request import SourceInput, check_prompts, check_source, check_tokens
from runtime_shims.reference.step_buffers import Step, StepBuffers

Result = TypeVar("Result")


class Session:
    """The mutable side of running a bundle: cursors, step buffers, and the request in progress.

    Every check comes before the program runs: an error raised by a check has written nothing and the
    session goes on. An error of the program itself leaves the caches undefined; from then on every
    verb refuses until `reset`.
    """

    def __init__(self, bundle: Bundle, program: Program) -> None:
        """Allocate step buffers and the prompt logits [max_batch, V] for the bundle's limits."""
        self.manifest: Manifest = bundle.manifest
        self.limits: Limits = bundle.manifest.limits
        self._program = program
        self._cursor = make_cursor(bundle.manifest)
        self._buffers = StepBuffers(self.limits)
        self._prompt_logits = torch.empty(self.limits.max_batch, bundle.manifest.tokens.vocab_size)
        self._pending: tuple[tuple[int, ...], ...] = ()
        self._enc_lengths: tuple[int, ...] | None = None
        self._rows = 0
        self._failure: str | None = None

    @property
    def rows(self) -> int:
        """B, the rows of the request in progress; 0 before the first `begin`."""
        return self._rows

    def length(self, row: int) -> int:
        """Tokens row `row` holds: the position of the next one."""
        return self._cursor.length(row)

    def can_extend(self, row: int, count: int) -> bool:
        """Whether one step may write `count` more tokens to `row`."""
        return self._cursor.can_extend(row, count)

    def max_rollback(self, row: int) -> int:
        """Most tokens that can be taken back from `row` now."""
        return self._cursor.max_rollback(row)

    def begin(
        self,
        row_prompts: Sequence[Sequence[int]],
        source: SourceInput | None = None,
        enc_lengths: Sequence[int] | None = None,
    ) -> None:
        """Start a request: forget the last one, check the new one whole, run the encoder if there is one.

        `row_prompts` are decoder token ids per row (encoder-decoder: the start tokens). `source` is the
        encoder input, see `request.check_source`. Raises UserInputError or CapacityExceeded.
        """
        self._check_alive()
        prompts = check_prompts(row_prompts, self.manifest)
        encoder_source = check_source(source, enc_lengths, len(prompts), self.manifest)
        for row in range(self.limits.max_batch):
            self._cursor.clear(row)
        self._rows = len(prompts)
        self._pending = prompts
        self._enc_lengths = None
        if encoder_source is None:
            return
        lengths = self._buffers.lengths(encoder_source.lengths)
        values = encoder_source.features
        if values is None:
            values = self._buffers.source(encoder_source.ids or ())
        self._run(lambda: self._program.encode(values, lengths))
        self._enc_lengths = encoder_source.lengths

    def prefill(self) -> Tensor:
        """Run the prompts, chunk by chunk; return the logits of each row's last token, float32 [B, V].

        Rows whose prompt has ended are idle in the later chunks. The result is valid until the next
        `prefill`.
        """
        self._check_alive()
        if not self._pending:
            raise UserInputError("there is no prompt to run: call begin first")
        prompts, self._pending = self._pending, ()
        chunk = self.manifest.recipe.prefill_chunk
        for start in range(0, max(map(len, prompts)), chunk):
            tokens = [prompt[start : start + chunk] for prompt in prompts]
            last = [[max(len(row_tokens) - 1, 0)] for row_tokens in tokens]
            logits = self._decode(tokens, last)
            for row, prompt in enumerate(prompts):
                if start < len(prompt) <= start + chunk:
                    self._prompt_logits[row].copy_(logits[row, 0])
        return self._prompt_logits[: self._rows]

    def step(self, tokens_per_row: Sequence[Sequence[int]]) -> Tensor:
        """Write each row's tokens and return their logits, float32 [B', R, V].

        R is the widest row; `logits[row, j]` belongs to the row's token j, entries past a row's width
        are meaningless. An empty row is idle. Idle rows at the end of the batch are left out: B' is one
        more than the last row with tokens. The result is valid until the session's next call.
        Raises CapacityExceeded before anything is written when a row cannot take its tokens.
        """
        self._check_alive()
        self._check_step(tokens_per_row)
        width = max(len(tokens) for tokens in tokens_per_row)
        logit_rows = [[min(j, max(len(tokens) - 1, 0)) for j in range(width)] for tokens in tokens_per_row]
        return self._decode(tokens_per_row, logit_rows)

    def rollback(self, row: int, count: int) -> None:
        """Take the last `count` tokens of `row` back. Raises RollbackTooDeep, with nothing changed."""
        self._check_alive()
        self._cursor.rollback(row, count)

    def reset(self) -> None:
        """Return to the state after loading, whatever happened before."""
        self._program.reset()
        for row in range(self.limits.max_batch):
            self._cursor.clear(row)
        self._pending = ()
        self._enc_lengths = None
        self._rows = 0
        self._failure = None

    def _decode(self, tokens: Sequence[Sequence[int]], logit_rows: Sequence[Sequence[int]]) -> Tensor:
        """Advance the cursors and run one step over rows whose capacity has been checked."""
        used = 1 + max(row for row, row_tokens in enumerate(tokens) if row_tokens)
        tokens = tokens[:used]
        step = Step(
            tokens=tokens,
            positions=[self._cursor.length(row) for row in range(len(tokens))],
            logit_rows=logit_rows[:used],
            enc_lengths=self._live_enc_lengths(tokens),
        )
        inputs = self._buffers.fill(step)
        for row, row_tokens in enumerate(tokens):
            self._cursor.advance(row, len(row_tokens))
        return self._run(lambda: self._program.decode(inputs))

    def _live_enc_lengths(self, tokens: Sequence[Sequence[int]]) -> list[int] | None:
        """Encoder lengths with 0 for idle rows: they attend to nothing."""
        if self._enc_lengths is None:
            return None
        return [length if row else 0 for length, row in zip(self._enc_lengths, tokens, strict=False)]

    def _check_step(self, tokens_per_row: Sequence[Sequence[int]]) -> None:
        if self._pending or self._rows == 0:
            raise UserInputError("a step needs a prompt behind it: call begin and prefill first")
        if len(tokens_per_row) != self._rows:
            raise UserInputError(f"{len(tokens_per_row)} rows of tokens for a request of {self._rows} rows")
        if not any(tokens_per_row):
            raise UserInputError("every row of the step is empty; give at least one row a token")
        for row, tokens in enumerate(tokens_per_row):
            if len(tokens) > self.limits.max_logit_rows:
                raise CapacityExceeded(
                    f"row {row}: a step of {len(tokens)} tokens, at most {self.limits.max_logit_rows} "
                    f"get logits; export with a larger --max-draft"
                )
            if not self._cursor.can_extend(row, len(tokens)):
                raise CapacityExceeded(
                    f"row {row} holds {self._cursor.length(row)} tokens and cannot take {len(tokens)} more: "
                    f"the capacity is {self.limits.max_dec}; export with a larger --max-dec"
                )
            check_tokens(tokens, self.manifest.tokens.vocab_size, f"row {row} of the step")

    def _check_alive(self) -> None:
        if self._failure is not None:
            raise FixedCapacityError(
                f"the session is unusable since a step failed ({self._failure}); call reset() first"
            )

    def _run(self, call: Callable[[], Result]) -> Result:
        """Call the program; whatever it raises, an interrupt included, leaves the caches undefined."""
        try:
            return call()
        except BaseException as error:
            self._failure = str(error) or type(error).__name__
            raise


def make_cursor(manifest: Manifest) -> SequenceCursor:
    """The cursor over the self-attention caches of a manifest."""
    geometries = [
        CacheGeometry(entry.kind, entry.reach, manifest.limits.max_step)
        for entry in manifest.caches
        if entry.kind != "cross"
    ]
    return SequenceCursor(manifest.limits.max_batch, manifest.limits.max_dec, geometries)
