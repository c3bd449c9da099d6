"""Where draft tokens come from: an index of what stands in the text already, or a smaller model.

A proposer serves one request at a time: `begin`, then in every round `propose` and, once the target has judged the
drafts, `commit`. What is proposed decides how fast the target goes and never what it says.

Shape legend: B rows of the request, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from runtime_shims.contract.errors import CapacityExceeded, UserInputError
from runtime_shims.contract.integers import require_integer
from runtime_shims.reference.draft_rows import DraftRows
from runtime_shims.reference.proposal import NOTHING, Proposal, Rows
from runtime_shims.reference.request import SourceInput
from runtime_shims.reference.sampling import TokenChooser
from runtime_shims.reference.session import Session
from runtime_shims.reference.sound_rows import is_sound

MAX_NGRAM = 3


class Proposer(Protocol):
    """A source of drafts. Contexts are the decoder tokens of each row: its prompt and everything emitted."""

    def begin(self, prompts: Rows, source: SourceInput | None, choosers: Sequence[TokenChooser]) -> None:
        """Start a request. `choosers` choose as the target's do, with the draws of the rows' draft streams.

        Raises CapacityExceeded or UserInputError for a request that the proposer cannot take.
        """
        ...

    def propose(self, contexts: Rows, counts: Sequence[int]) -> list[Proposal]:
        """At most `counts[row]` drafts for every row; nothing for a row of count 0."""
        ...

    def commit(self, contexts: Rows) -> None:
        """Forget whatever was proposed and does not stand in `contexts`."""
        ...


class PromptLookup:
    """Proposes what followed the last time that the row's newest tokens stood in its text.

    The text of a row is its encoder tokens, if it has any, and its decoder tokens, as two separate pieces. The longest
    match wins, and of equally long ones the last; decoder tokens come after encoder tokens. Nothing runs over the end
    of a piece. Speech has no encoder tokens.
    """

    def __init__(self, max_ngram: int = MAX_NGRAM) -> None:
        """`max_ngram` is the longest match that is looked for."""
        self._max_ngram = require_integer("max_ngram", max_ngram, 1)
        self._indices: list[NgramIndex] = []

    def begin(self, prompts: Rows, source: SourceInput | None, choosers: Sequence[TokenChooser]) -> None:
        """Index the sources; the prompts follow with the first proposal."""
        self._indices = [NgramIndex(self._max_ngram) for _ in prompts]
        for index, tokens in zip(self._indices, _token_rows(source), strict=False):
            index.add_piece(tokens)

    def propose(self, contexts: Rows, counts: Sequence[int]) -> list[Proposal]:
        """Up to `counts[row]` tokens per row, fewer where the piece ends, none without a match."""
        proposals = []
        for index, context, count in zip(self._indices, contexts, counts, strict=True):
            index.extend(context[index.length :])
            proposals.append(Proposal(index.following(count)) if count else NOTHING)
        return proposals

    def commit(self, contexts: Rows) -> None:
        """Drafts are never indexed, so there is nothing to forget."""


class NgramIndex:
    """After which token each n-gram was last seen, for n up to `max_ngram`.

    A new token costs `max_ngram` entries of the table, however long the text is, and so does a question.
    """

    def __init__(self, max_ngram: int) -> None:
        self._max_ngram = max_ngram
        self._piece: list[int] = []
        self._last_seen: dict[tuple[int, ...], tuple[list[int], int]] = {}

    @property
    def length(self) -> int:
        """Tokens of the newest piece."""
        return len(self._piece)

    def add_piece(self, tokens: Sequence[int]) -> None:
        """Index a piece of text of its own, before the one that grows."""
        self.extend(tokens)
        self._piece = []

    def extend(self, tokens: Sequence[int]) -> None:
        """Append to the newest piece. An n-gram is entered when the token after it comes."""
        for token in tokens:
            for size in range(1, min(self._max_ngram, len(self._piece)) + 1):
                self._last_seen[tuple(self._piece[-size:])] = (self._piece, len(self._piece))
            self._piece.append(token)

    def following(self, count: int) -> tuple[int, ...]:
        """At most `count` tokens that followed the longest tail of the newest piece that was seen before."""
        for size in range(min(self._max_ngram, len(self._piece)), 0, -1):
            seen = self._last_seen.get(tuple(self._piece[-size:]))
            if seen is not None:
                piece, start = seen
                return tuple(piece[start : start + count])
        return ()


class DraftModel:
    """Drafts of a second model, all rows at once, in a session of its own.

    Between rounds the draft's session holds the row's context without its newest token, or less: the drafts of a round
    are its own answers, of which it never writes the last. With K drafts of which n stood it wrote K tokens and keeps
    min(n + 1, K): after a full acceptance it is one token behind, and its next call takes two tokens.

    A draft never breaks its target: a row for which no token can be chosen, because the draft's logits hold NaN or are
    infinite, has no drafts in that round.
    """

    def __init__(self, session: Session) -> None:
        """`session` belongs to the proposer from here on; see `draft_bundle.check_draft_bundle`."""
        self.session = session
        self._choosers: Sequence[TokenChooser] = ()

    def begin(self, prompts: Rows, source: SourceInput | None, choosers: Sequence[TokenChooser]) -> None:
        """Encode the source and run the prompts through the draft model."""
        try:
            self.session.begin(prompts, source)
        except (CapacityExceeded, UserInputError) as error:
            raise type(error)(f"the draft bundle cannot take the request: {error}") from error
        self.session.prefill()
        self._choosers = choosers

    def propose(self, contexts: Rows, counts: Sequence[int]) -> list[Proposal]:
        """Up to `counts[row]` drafts per row, as many as the draft's own capacity allows."""
        counts = [self._room(context, count) for context, count in zip(contexts, counts, strict=True)]
        rows = DraftRows(contexts, counts, self._choosers)
        while live := rows.live():
            unwritten = [live[row][self.session.length(row) :] if row in live else [] for row in range(len(counts))]
            logits_BV = self.session.feed(unwritten)
            for row in live:
                rows.draw(row, logits_BV[row])
        return rows.proposals()

    def commit(self, contexts: Rows) -> None:
        """Take back the drafts that were rejected, and those behind the end of a finished row."""
        for row, context in enumerate(contexts):
            self.session.rollback(row, max(self.session.length(row) - (len(context) - 1), 0))

    def _room(self, context: Sequence[int], count: int) -> int:
        """Drafts that fit: all but the last are written after the context, and a rollback must reach over them."""
        return max(0, min(count, self.session.limits.max_dec - len(context) + 1, self.session.limits.max_step))


def _token_rows(source: SourceInput | None) -> Rows:
    """Encoder tokens per row; none for speech and without an encoder."""
    if source is None or is_sound(source) or getattr(source, "ndim", 2) != 2:
        return ()
    return [[int(token) for token in tokens] for tokens in source]
