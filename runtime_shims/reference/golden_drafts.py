"""What an assistant drafts behind the first golden request's prompts, in a golden file, and how a program compares.

    {"rows": [[{"after": token, "top": [[token, logit], ...]}, ...] per row], "tolerance_abs": x}      or null

The first draft of a row is made behind its prompt and the largest of its first logits, each further one behind the
draft before it.

Shape legend: B batch rows, C width of a hidden state.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from runtime_shims.contract.errors import UserInputError
from runtime_shims.reference.session import Session
from runtime_shims.reference.token_rows import check_tokens


@dataclass(frozen=True)
class GoldenDraft:
    """The token that a draft follows, and the assistant's largest logits `(token, logit)` behind it, largest first."""

    after: int
    top: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class GoldenDrafts:
    """The drafts of each row, and how far a program's logits may be from them."""

    rows: tuple[tuple[GoldenDraft, ...], ...]
    tolerance: float


@dataclass(frozen=True)
class DraftsResult:
    """How many drafts were compared, and the largest difference of a recorded logit."""

    drafts: int
    difference: float
    tolerance: float

    @property
    def passed(self) -> bool:
        """Whether every recorded logit is within the tolerance; False for NaN."""
        return self.difference <= self.tolerance


def replay_drafts(session: Session, prompts: tuple[tuple[int, ...], ...], golden: GoldenDrafts) -> DraftsResult:
    """Draft behind `prompts` and the recorded tokens, all rows at once, and compare.

    Raises UserInputError when the bundle has no assistant, or the file holds tokens that there are not.
    """
    if session.manifest.assistant is None:
        raise UserInputError("the golden file holds drafts, the bundle has no assistant")
    words = session.manifest.tokens.vocab_size
    for draft in (draft for row in golden.rows for draft in row):
        check_tokens([draft.after, *(token for token, _ in draft.top)], words, "the golden drafts")
    session.begin(prompts)
    session.prefill()
    hidden_BC = torch.stack([session.last_hidden(row) for row in range(len(prompts))])
    differences: list[float] = []
    for place in range(max(map(len, golden.rows), default=0)):
        drafts: list[GoldenDraft | None] = [row[place] if place < len(row) else None for row in golden.rows]
        logits_BV, hidden_BC = session.draft([None if one is None else one.after for one in drafts], hidden_BC)
        for logits_V, one in zip(logits_BV, drafts, strict=True):
            differences += [] if one is None else [abs(float(logits_V[token]) - logit) for token, logit in one.top]
    session.end()
    largest = float(torch.tensor(differences, dtype=torch.float64).max()) if differences else 0.0
    return DraftsResult(sum(map(len, golden.rows)), largest, golden.tolerance)
