"""A request of a session in the place where `generate` keeps its cache.

transformers' loop hands its cache from call to call and takes drafts back with `crop`. The keys and values are inside
the program here; what is handed around is which tokens of which rows they belong to.

Shape legend: B rows, T columns of a call, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import RLock

import torch
from torch import Tensor

from runtime_shims.contract.errors import UnsupportedSetting, UserInputError
from runtime_shims.reference.request import SourceInput, check_prompts
from runtime_shims.reference.session import Session
from runtime_shims.reference.step_checks import require_room

Rows = list[list[int]]


class SharedSession:
    """A session, and the request that its caches hold. One holds them at a time.

    `lock` is held while the session is used, so that threads take turns.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.lock = RLock()
        self.holder: RequestCache | None = None


class RequestCache:
    """One request. Columns are those of transformers' tensors, tokens those of them that are no padding.

    When another request has used the session in between (Whisper looks for speech so), this one is run again from its
    tokens: answers are the same, and it costs time.
    """

    is_compileable = False
    is_croppable = True
    is_linear = (False,)
    _is_user_defined = False

    def __init__(self, shared: SharedSession, source: SourceInput | None) -> None:
        """`source` is the encoder input, see `runtime_shims.reference.request.check_source`."""
        self._shared = shared
        self._source = source
        self._rows: Rows = []
        self._columns = 0
        self._finished: set[int] = set()
        self.padding = 0
        """Most columns of padding that a row has."""

    @property
    def shared(self) -> SharedSession:
        return self._shared

    @property
    def rows(self) -> int:
        """B, once something is written."""
        return len(self._rows)

    def resume(self, padding: int) -> None:
        """A call of `generate` begins; rows that ended in the last one go on."""
        self.padding = padding
        self._finished.clear()

    def check_goes_on(self, text: Rows) -> None:
        """Raise UserInputError unless the whole text begins with what is held, and has more."""
        for held, given in zip(self._rows, text, strict=False):
            if len(given) <= len(held) or given[: len(held)] != held:
                raise UserInputError(
                    f"cache holds {len(held)} tokens that the text of {len(given)} does not go on from: give the whole "
                    "text with at least one token more, or leave cache out"
                )

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Columns written so far, padding included: all layers hold the same."""
        return self._columns

    def activate_past_recording(self) -> None:
        """Part of the interface of caches; rows can always be taken back."""

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Refused: the caches of a program stay with their rows."""
        raise UnsupportedSetting("a program does not move the caches of its rows, so it has no beams; use num_beams=1")

    def crop(self, max_length: int) -> None:
        """Take tokens back: `-max_length` of every unfinished row, or with a positive value all columns behind it.

        Raises RollbackTooDeep where the bundle was not exported to take so many back.
        """
        count = -max_length if max_length <= 0 else max(self._columns - max_length, 0)
        live = [row for row in range(len(self._rows)) if row not in self._finished]
        with self._shared.lock:
            for row in live if self._is_held else ():
                self._shared.session.rollback(row, count)
        for row in live:
            del self._rows[row][len(self._rows[row]) - count :]
        self._columns -= count

    def finish(self, done_B: Tensor) -> None:
        """These rows have ended: what comes for them is padding, and is not written."""
        self._finished.update(done_B.nonzero().flatten().tolist())

    def full(self) -> Tensor:
        """Unfinished rows whose newest token has no position any more, bool [B]."""
        most = self._shared.session.limits.max_dec
        return torch.tensor([len(row) >= most and at not in self._finished for at, row in enumerate(self._rows)])

    def write(self, tokens_BT: Tensor, mask_BT: Tensor | None, keep: int) -> Tensor:
        """Write the columns and return the logits of the last `keep` of them, float32 [B, keep, V], the caller's own.

        `mask_BT` is 0 where a column is padding; None: nowhere. Logits of padding are zeros.
        Raises UserInputError or CapacityExceeded before anything is written.
        """
        added = real_tokens(tokens_BT, mask_BT)
        added = [[] if row in self._finished else tokens for row, tokens in enumerate(added)]
        self._check(added)
        vocabulary = self._shared.session.manifest.tokens.vocab_size
        logits_BKV = torch.zeros(len(added), keep, vocabulary)
        with self._shared.lock:
            self._write(added, keep, logits_BKV)
        held = self._rows or [[] for _ in added]
        self._rows = [before + tokens for before, tokens in zip(held, added, strict=True)]
        self._columns += tokens_BT.shape[1]
        return logits_BKV

    def _write(self, added: Rows, keep: int, logits_BKV: Tensor) -> None:
        """Write checked tokens behind those that the request has, and put the logits of the last `keep` columns."""
        if not self._rows:
            heads = [tokens[: max(len(tokens) - keep + 1, 1)] for tokens in added]
            self._begin(heads)
            self._put(self._shared.session.prefill()[:, None], added, heads, logits_BKV)
        else:
            self._return()
            heads = [tokens[: max(len(tokens) - keep, 0)] for tokens in added]
            if any(heads):
                self._shared.session.feed(heads)
        self._write_wide(added, heads, logits_BKV)

    def _check(self, added: Rows) -> None:
        """Everything that a session checks call by call, for all calls of this write."""
        if not self._rows:
            check_prompts(added, self._shared.session.manifest)
            return
        if len(added) != len(self._rows):
            raise UserInputError(f"{len(added)} rows of tokens for a request of {len(self._rows)} rows")
        for row, (held, tokens) in enumerate(zip(self._rows, added, strict=True)):
            require_room(row, len(held), len(tokens), self._shared.session.limits.max_dec)

    def _write_wide(self, added: Rows, heads: Rows, logits_BKV: Tensor) -> None:
        """Write what is behind the heads, in steps that give logits for every token."""
        session = self._shared.session
        done, width = [list(head) for head in heads], session.limits.max_logit_rows
        while any(len(tokens) > len(head) for tokens, head in zip(added, done, strict=True)):
            step = [tokens[len(head) : len(head) + width] for tokens, head in zip(added, done, strict=True)]
            found_BRV = session.step(step)
            for head, tokens in zip(done, step, strict=True):
                head.extend(tokens)
            self._put(found_BRV, added, done, logits_BKV, [len(tokens) for tokens in step])

    @staticmethod
    def _put(
        found_BRV: Tensor, added: Rows, done: Rows, logits_BKV: Tensor, counts: Sequence[int] | None = None
    ) -> None:
        """Copy the logits of the last `counts` tokens of `done` (default: 1) to their columns of those of `added`."""
        keep = logits_BKV.shape[1]
        for row in range(found_BRV.shape[0]):
            count = 1 if counts is None else counts[row]
            end = keep - (len(added[row]) - len(done[row]))
            if count and added[row]:
                logits_BKV[row, end - count : end] = found_BRV[row, :count]

    def _return(self) -> None:
        """Run the request again if another one, or an interrupt, has ended it."""
        if not self._is_held:
            self._begin(self._rows)
            self._shared.session.prefill()

    @property
    def _is_held(self) -> bool:
        """Whether the session's caches hold this request."""
        return self._shared.holder is self and self._shared.session.rows > 0

    def _begin(self, rows: Sequence[Sequence[int]]) -> None:
        self._shared.session.begin(rows, self._source)
        self._shared.holder = self


def real_tokens(tokens_BT: Tensor, mask_BT: Tensor | None) -> Rows:
    """The tokens of each row that are no padding. Raises UserInputError for a mask of another shape."""
    rows: Rows = tokens_BT.tolist()
    if mask_BT is None:
        return rows
    check_mask(mask_BT, tokens_BT)
    kept = mask_BT.bool().tolist()
    return [[token for token, is_real in zip(*pair, strict=True) if is_real] for pair in zip(rows, kept, strict=True)]


def check_mask(mask: Tensor, values: Tensor) -> None:
    """Raise UserInputError unless there is a value of the mask for each token or sample."""
    if mask.shape != values.shape:
        shapes = f"{tuple(mask.shape)} for an input of shape {tuple(values.shape)}"
        raise UserInputError(f"an attention mask has shape {shapes}; give one of the same, or leave it out")
