"""Requests, and ways to feed them: any chunking, any rows, drafts that are rejected and rolled back.

The texts are fixed beforehand, so whatever a schedule does, the logits after a token of a text must be those
that the stock model gives for that text.

Shape legend: T tokens, V vocabulary.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from exporter.bundle.tolerances import TOLERANCES
from runtime_shims.reference.request import SourceInput
from runtime_shims.reference.session import Session
from tests.parity.support import StockModel
from tests.support.tiny_models import CASES, HEARS_SOUND, sound, source, tokens

DEEPEST = 4  # right tokens taken back at once: deeper ones only take longer to feed again
Answer = tuple[int, int, Tensor]  # row, position, logits float32 [V]


@dataclass(frozen=True)
class Request:
    """Rows of whole decoder texts, and the encoder input of each."""

    texts: tuple[tuple[int, ...], ...]
    sources: tuple[SourceInput, ...] | None

    @classmethod
    def random(
        cls, stock: StockModel, lengths: Sequence[int], source_lengths: Sequence[int] = (), seed: int = 0
    ) -> Request:
        """Texts that begin with the model's start tokens; sources only where the model has an encoder."""
        texts = tuple(
            (stock.start + ids(length, 100 * seed + row))[:length] for row, length in enumerate(lengths)
        )
        kind = CASES[stock.case].kind
        if kind == "decoder_only":
            return cls(texts, None)
        if stock.case in HEARS_SOUND:
            lengths = list(source_lengths)
            return cls(texts, tuple(sound(stock.case, 1, length, seed + row)[0] for row, length in enumerate(lengths)))
        if kind == "speech_seq2seq":
            return cls(texts, tuple(source(stock.case, len(texts), 0, seed)))
        return cls(
            texts, tuple(ids(length, 100 * seed + 50 + row) for row, length in enumerate(source_lengths))
        )

    def rows(self, order: Sequence[int]) -> Request:
        """The same request with its rows in another order, or only some of them."""
        chosen = None if self.sources is None else tuple(self.sources[row] for row in order)
        return Request(tuple(self.texts[row] for row in order), chosen)

    def expected(self, stock: StockModel) -> list[Tensor]:
        """Stock logits `[T, V]` of each row, alone and unpadded."""
        sources = self.sources or (None,) * len(self.texts)
        return [stock.logits_TV(text, row) for text, row in zip(self.texts, sources, strict=True)]

    def in_double(self) -> Request:
        """The same request for a stock model in float64."""
        if self.sources is None or not isinstance(self.sources[0], Tensor):
            return self
        return Request(self.texts, tuple(row.double() for row in self.sources))  # type: ignore[union-attr]

    @property
    def session_source(self) -> SourceInput | None:
        """The sources as a session takes them."""
        if self.sources is None or not isinstance(self.sources[0], Tensor):
            return self.sources  # type: ignore[return-value]
        if self.sources[0].ndim == 1:  # sound of several lengths
            return list(self.sources)  # type: ignore[arg-type]
        return torch.stack(self.sources)  # type: ignore[arg-type]


def ids(length: int, seed: int) -> tuple[int, ...]:
    return tuple(tokens(1, length, seed)[0].tolist())


def start(session: Session, request: Request, prompt_lengths: Sequence[int]) -> Iterator[Answer]:
    """Begin a request and run its prompts."""
    prompts = [text[:length] for text, length in zip(request.texts, prompt_lengths, strict=True)]
    session.begin(prompts, request.session_source)
    logits = session.prefill().clone()
    for row, prompt in enumerate(prompts):
        yield row, len(prompt) - 1, logits[row]


def wander(session: Session, request: Request, seed: int) -> Iterator[Answer]:
    """Feed the rest of every text in ragged steps of random width, with idle rows and rejected drafts.

    Some tokens of each step are wrong and taken back, in one piece or two; now and then right ones are taken
    back as well, up to `DEEPEST` or as deep as the cursor allows.
    """
    chance = random.Random(seed)
    while any(session.length(row) < len(text) for row, text in enumerate(request.texts)):
        kept, fed = [], []
        for row, text in enumerate(request.texts):
            keep, bad = _widths(session, row, len(text), chance)
            held = session.length(row)
            wrong = [(text[min(held + keep, len(text) - 1)] + 1 + chance.randrange(9)) % 60] * bad
            kept.append(keep)
            fed.append([*text[held : held + keep], *wrong])
        if not any(fed):
            continue
        first = [session.length(row) for row in range(len(fed))]
        logits = session.step(fed).clone()
        for row, keep in enumerate(kept):
            for place in range(keep):
                yield row, first[row] + place, logits[row, place]
            _roll_back(session, row, len(fed[row]) - keep, chance)


def _widths(session: Session, row: int, length: int, chance: random.Random) -> tuple[int, int]:
    """Right and wrong tokens of a row's next step; both 0 for an idle row."""
    held, widest = session.length(row), session.limits.max_logit_rows
    if chance.random() < 0.15:
        return 0, 0
    keep = min(chance.choice((1, 1, widest, chance.randint(0, widest))), length - held)
    bad = chance.randint(0, widest - keep)
    while bad and not session.can_extend(row, keep + bad):
        bad -= 1
    return keep, bad


def _roll_back(session: Session, row: int, rejected: int, chance: random.Random) -> None:
    first = chance.randint(0, rejected)
    session.rollback(row, first)
    session.rollback(row, rejected - first)
    if chance.random() < 0.15:
        session.rollback(row, min(session.max_rollback(row), session.length(row) - 1, DEEPEST))


def in_chunks(session: Session, request: Request, width: int) -> Iterator[Answer]:
    """Feed every text behind its first token in steps of one width."""
    yield from start(session, request, [1] * len(request.texts))
    while any(session.length(row) < len(text) for row, text in enumerate(request.texts)):
        held = [session.length(row) for row in range(len(request.texts))]
        fed = [text[held[row] : held[row] + width] for row, text in enumerate(request.texts)]
        logits = session.step(fed).clone()
        for row, row_tokens in enumerate(fed):
            for place in range(len(row_tokens)):
                yield row, held[row] + place, logits[row, place]


@dataclass(frozen=True)
class Comparison:
    """Largest difference of a logit, what the table allows, and whether every best token is the same."""

    difference: float
    allowed: float
    answers: int
    same_tokens: bool

    @property
    def passed(self) -> bool:
        return self.difference <= self.allowed and self.same_tokens and self.answers > 0


def compare(
    answers: Iterable[Answer], expected: Sequence[Tensor], backend: str = "eager", dtype: str = "float32"
) -> Comparison:
    """Hold every answer against the stock logits; NaN never passes."""
    pairs = [(logits, expected[row][position]) for row, position, logits in answers]
    got, want = torch.stack([pair[0] for pair in pairs]), torch.stack([pair[1] for pair in pairs])
    difference = float((got - want).abs().nan_to_num(nan=torch.inf).max())
    allowed = TOLERANCES[dtype, backend].absolute(float(want.abs().max()))
    return Comparison(difference, allowed, len(pairs), torch.equal(got.argmax(-1), want.argmax(-1)))
