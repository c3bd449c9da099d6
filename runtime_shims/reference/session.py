"""One session: a loaded program reused for request after request, nothing allocated per step.

The verbs: `begin` (check everything, run the encoder), `prefill` (run the prompts in chunks), `step`
(write a few tokens per row, get their logits), `feed` (write any number, get the last one's logits), `rollback`
(take tokens back), `end`, `reset`.

Shape legend: B rows of the request, R step tokens with logits, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import Tensor

from runtime_shims.contract.bundle_reader import Bundle
from runtime_shims.contract.cache_geometry import CacheGeometry
from runtime_shims.contract.errors import FixedCapacityError, UserInputError
from runtime_shims.contract.manifest import Limits, Manifest
from runtime_shims.contract.sequence_cursor import SequenceCursor
from runtime_shims.reference.hidden_states import HiddenStates
from runtime_shims.reference.program import DraftInputs, Program
from runtime_shims.reference.request import (
    EncoderSource,
    SourceInput,
    WaveformInput,
    check_prompts,
    check_source,
    check_waveform,
)
from runtime_shims.reference.step_buffers import Step, StepBuffers
from runtime_shims.reference.step_checks import check_draft, checked_step
from runtime_shims.reference.token_rows import TokenRow, TokenRows

Result = TypeVar("Result")


class Session:
    """The mutable side of running a bundle: cursors, step buffers, and the request in progress.

    Every check comes before the program runs: an error raised by a check has written nothing and the
    session goes on. An error of the program itself leaves the caches undefined; from then on every
    verb refuses until `reset`. Whatever else ends a verb half-way, an interrupt between two chunks of a
    prompt for one, ends the request: `rows` is 0 and the next `begin` starts from nothing.
    """

    def __init__(self, bundle: Bundle, program: Program) -> None:
        """Allocate step buffers and the logits of last tokens [max_batch, V] for the bundle's limits."""
        self.manifest: Manifest = bundle.manifest
        self.limits: Limits = bundle.manifest.limits
        self._program = program
        self._cursor = make_cursor(bundle.manifest)
        self._buffers = StepBuffers(self.limits)
        self._last_logits = torch.empty(self.limits.max_batch, bundle.manifest.tokens.vocab_size)
        assistant = bundle.manifest.assistant
        self._hidden = HiddenStates(self.limits, 0 if assistant is None else assistant.hidden_size)
        self._pending: tuple[tuple[int, ...], ...] = ()
        self._enc_lengths: tuple[int, ...] | None = None
        self._rows = 0
        self._failure: str | None = None

    @property
    def rows(self) -> int:
        """B, the rows of the request in progress; 0 when there is none."""
        return self._rows

    @property
    def hidden_size(self) -> int:
        """C, values of a hidden state that an assistant takes; 0 without one."""
        return self._hidden.width

    def length(self, row: int) -> int:
        """Tokens row `row` holds: the position of the next one."""
        return self._cursor.length(row)

    def can_extend(self, row: int, count: int) -> bool:
        """Whether one step may write `count` more tokens to `row`."""
        return self._cursor.can_extend(row, count)

    def max_rollback(self, row: int) -> int:
        """Most tokens that can be taken back from `row` now."""
        return self._cursor.max_rollback(row)

    def high_water(self, row: int) -> int:
        """Highest end ever written in `row` in this request."""
        return self._cursor.high_water(row)

    def features(self, waveform: WaveformInput) -> Tensor:
        """The encoder input of sound, float32 [B, *source_shape], see `request.check_waveform`.

        It may be asked for at any time: a request in progress goes on. Raises UserInputError or CapacityExceeded.
        """
        self._check_alive()
        samples = check_waveform(waveform, self.manifest)
        return self._run(lambda: self._program.features(samples))

    def begin(
        self,
        row_prompts: TokenRows,
        source: SourceInput | None = None,
        enc_lengths: TokenRow | None = None,
    ) -> None:
        """Start a request: forget the last one, check the new one whole, run the encoder if there is one.

        `row_prompts` are decoder token ids per row (encoder-decoder: the start tokens), lists, integer
        arrays or tensors, ragged or [B, T]. `source` is the encoder input, see `request.check_source`.
        Raises UserInputError or CapacityExceeded.
        """
        self._check_alive()
        prompts = check_prompts(row_prompts, self.manifest)
        encoder_source = check_source(source, enc_lengths, len(prompts), self.manifest)
        self._forget_request()
        if encoder_source is not None:
            self._encode(encoder_source)
        self._pending = prompts
        self._rows = len(prompts)  # last: from here on there is a request

    def prefill(self) -> Tensor:
        """Run the prompts, chunk by chunk; return the logits of each row's last token, float32 [B, V].

        Rows whose prompt has ended are idle in the later chunks. The result is valid until the next
        `prefill` or `feed`.
        """
        self._check_alive()
        if self._rows == 0 or not self._pending:
            raise UserInputError("there is no prompt to run: call begin first")
        with self._request_in_flight():
            self._run_chunks(self._pending, self.manifest.recipe.prefill_chunk)
            self._pending = ()
        return self._last_logits[: self._rows]

    def feed(self, tokens_per_row: TokenRows) -> Tensor:
        """Write any number of tokens per row in chunks; return the logits of each row's last one, float32 [B, V].

        A row without tokens is idle and its logits are meaningless. The result is valid until the next `feed` or
        `prefill`. Raises CapacityExceeded before anything is written when a row cannot take its tokens.
        """
        self._check_alive()
        tokens = self._checked_step(tokens_per_row, widest=None)
        with self._request_in_flight():
            self._run_chunks(tokens, self.limits.max_step)
        return self._last_logits[: self._rows]

    def step(self, tokens_per_row: TokenRows) -> Tensor:
        """Write each row's tokens and return their logits, float32 [B', R, V].

        R is the widest row; `logits[row, j]` belongs to the row's token j, entries past a row's width
        are meaningless. An empty row is idle. Idle rows at the end of the batch are left out: B' is one
        more than the last row with tokens. The result is valid until the session's next call.
        Raises CapacityExceeded before anything is written when a row cannot take its tokens.
        """
        self._check_alive()
        step = self._checked_step(tokens_per_row, widest=self.limits.max_logit_rows)
        width = max(len(tokens) for tokens in step)
        logit_rows = [[min(j, max(len(tokens) - 1, 0)) for j in range(width)] for tokens in step]
        with self._request_in_flight():
            return self._decode(step, logit_rows)

    def last_hidden(self, row: int) -> Tensor:
        """The state behind the last token of `row`, float32 [C]; a copy.

        Raises UserInputError when the row's last step did not bring it: there was none, or more was rolled back.
        """
        state_C = self._hidden.at(row, self._cursor.length(row) - 1) if row < self._rows else None
        if state_C is None:
            raise UserInputError(f"row {row} has no state to draft from: run a step first")
        return state_C

    def draft(self, tokens: Sequence[int | None], hidden_BC: Tensor) -> tuple[Tensor, Tensor]:
        """What the assistant says behind one token per row; logits float32 [B, V] and states float32 [B, C], copies.

        `hidden_BC` holds the states before these tokens. A row of None is idle and its results are meaningless.
        Nothing is written. Raises UserInputError for a row that holds no token.
        """
        self._check_alive()
        check_draft(tokens, hidden_BC, self._rows, self._cursor, self.manifest)
        inputs = DraftInputs(
            tokens=torch.tensor([[token or 0] for token in tokens]),
            hidden=hidden_BC.contiguous(),
            positions=torch.tensor([max(self._cursor.length(row) - 1, 0) for row in range(len(tokens))]),
            step_lengths=torch.tensor([0 if token is None else 1 for token in tokens]),
        )
        logits_B1V, next_BC = self._run(lambda: self._program.draft(inputs))
        return logits_B1V[:, 0].clone(), next_BC.clone()

    def rollback(self, row: int, count: int) -> None:
        """Take the last `count` (>= 0) tokens of `row` back.

        Raises RollbackTooDeep, or UserInputError for a row that is not part of the request; nothing is changed.
        """
        self._check_alive()
        if self._cursor.length(row) and row >= self._rows:
            raise UserInputError(f"row {row} is not part of a request of {self._rows} rows: call begin first")
        self._cursor.rollback(row, count)

    def end(self) -> None:
        """Forget the request in progress, if there is one: `rows` is 0."""
        self._forget_request()

    def reset(self) -> None:
        """Return to the state after loading, whatever happened before."""
        self._program.reset()
        self._forget_request()
        self._failure = None

    def _forget_request(self) -> None:
        self._rows = 0  # first: an interrupt below leaves a session without a request
        self._pending = ()
        self._enc_lengths = None
        for row in range(self.limits.max_batch):
            self._cursor.clear(row)
            self._hidden.forget(row)

    @contextmanager
    def _request_in_flight(self) -> Iterator[None]:
        """Withdraw the request while its cursors and caches are changed; what ends that early ends the request.

        The request is put back by the last assignment, so no moment is left at which an interrupt could
        keep a request whose cursors say more than was written.
        """
        rows, self._rows = self._rows, 0
        yield
        self._rows = rows

    def _run_chunks(self, rows: Sequence[Sequence[int]], chunk: int) -> None:
        """Write checked tokens `chunk` at a time, and keep the logits of each row's last one."""
        for start in range(0, max(map(len, rows)), chunk):
            tokens = [row_tokens[start : start + chunk] for row_tokens in rows]
            logits = self._decode(tokens, [[max(len(row_tokens) - 1, 0)] for row_tokens in tokens])
            for row, row_tokens in enumerate(rows):
                if start < len(row_tokens) <= start + chunk:
                    self._last_logits[row].copy_(logits[row, 0])

    def _encode(self, source: EncoderSource) -> None:
        lengths = self._buffers.lengths(source.lengths if source.samples is None else source.samples)
        values = source.features if source.features is not None else self._buffers.source(source.ids or ())
        self._run(lambda: self._program.encode(values, lengths))
        self._enc_lengths = source.lengths

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
        logits_BRV = self._run(lambda: self._program.decode(inputs))
        if self.hidden_size:
            self._hidden.keep(step, self._program.hidden())
        return logits_BRV

    def _live_enc_lengths(self, tokens: Sequence[Sequence[int]]) -> list[int] | None:
        """Encoder lengths with 0 for idle rows: they attend to nothing."""
        if self._enc_lengths is None:
            return None
        return [length if row else 0 for length, row in zip(self._enc_lengths, tokens, strict=False)]

    def _checked_step(self, tokens_per_row: TokenRows, widest: int | None) -> list[tuple[int, ...]]:
        if self._pending or self._rows == 0:
            raise UserInputError("a step needs a prompt behind it: call begin and prefill first")
        return checked_step(tokens_per_row, widest, self._rows, self._cursor, self.manifest)

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
