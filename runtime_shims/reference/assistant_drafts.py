"""Drafts of an assistant that is part of the target's program (`--speculate mtp`).

An assistant has no state: from a token and the hidden state before it, it gives the next token and the next state, over
the caches that the target has written. It therefore sees what stands and nothing of what was rejected, and every draft
of a round is made at one position.

Shape legend: B rows of the request, V vocabulary, C width of a hidden state.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from runtime_shims.contract.errors import UserInputError
from runtime_shims.reference.draft_rows import DraftRows
from runtime_shims.reference.proposal import Proposal, Rows
from runtime_shims.reference.request import SourceInput
from runtime_shims.reference.sampling import TokenChooser
from runtime_shims.reference.session import Session


class AssistantDrafts:
    """A proposer over the target's own session."""

    def __init__(self, session: Session) -> None:
        """Raises UserInputError when the session's program has no assistant."""
        if session.manifest.assistant is None:
            raise UserInputError("the bundle has no assistant; export it with --draft mtp, or draft in another way")
        self._session = session
        self._choosers: Sequence[TokenChooser] = ()

    def begin(self, prompts: Rows, source: SourceInput | None, choosers: Sequence[TokenChooser]) -> None:
        """Nothing runs: the target's prompt is the assistant's."""
        self._choosers = choosers

    def propose(self, contexts: Rows, counts: Sequence[int]) -> list[Proposal]:
        """Up to `counts[row]` drafts per row, all rows at once."""
        rows = DraftRows(contexts, counts, self._choosers)
        hidden_BC = self._states(counts)
        while live := rows.live():
            last = [live[row][-1] if row in live else None for row in range(len(counts))]
            logits_BV, hidden_BC = self._session.draft(last, hidden_BC)
            for row in live:
                rows.draw(row, logits_BV[row])
        return rows.proposals()

    def commit(self, contexts: Rows) -> None:
        """Nothing was written, so there is nothing to take back."""

    def _states(self, counts: Sequence[int]) -> Tensor:
        """The state behind each row's last token that was written, `[B, C]`; rows without drafts have none."""
        width = self._session.hidden_size
        rows = [
            self._session.last_hidden(row) if count else torch.zeros(width) for row, count in enumerate(counts)
        ]
        return torch.stack(rows)
