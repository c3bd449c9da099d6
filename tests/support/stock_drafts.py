"""What transformers' own assistant drafts over caches of exact size that hold nothing but tokens that stand.

Shape legend: n tokens written, C width of the target's hidden states, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel


@dataclass(frozen=True)
class StockDrafts:
    """A target and its assistant as transformers made them, one unpadded row at a time."""

    target: PreTrainedModel
    assistant: PreTrainedModel

    @torch.no_grad()
    def chain(self, text: Sequence[int], drafts: int) -> tuple[list[int], list[Tensor], list[Tensor]]:
        """Greedy drafts behind `text`, whose last token is not written yet; logits `[V]` and states `[C]` of each."""
        written = torch.tensor([list(text[:-1])])
        out = self.target(input_ids=written, output_hidden_states=True, return_shared_kv_states=True, use_cache=False)
        hidden, token = out.hidden_states[-1][:, -1:], text[-1]
        tokens: list[int] = []
        logits: list[Tensor] = []
        states: list[Tensor] = []
        for _ in range(drafts):
            embedded = self.target.get_input_embeddings()(torch.tensor([[token]]))
            drafted = self.assistant(
                inputs_embeds=torch.cat([embedded, hidden], dim=-1),
                position_ids=torch.tensor([[len(text) - 1]]),
                shared_kv_states=dict(out.shared_kv_states),
                use_cache=False,
            )
            hidden, token = drafted.last_hidden_state, int(drafted.logits[0, -1].argmax())
            tokens.append(token)
            logits.append(drafted.logits[0, -1])
            states.append(hidden[0, -1])
        return tokens, logits, states

    @torch.no_grad()
    def generate(self, prompt: Sequence[int], new_tokens: int, drafts: int) -> tuple[list[int], list[int]]:
        """Greedy tokens, and how many drafts stood in each round of at most `drafts`."""
        text = list(prompt)
        text.append(self._next(text))
        accepted: list[int] = []
        while len(text) - len(prompt) < new_tokens:
            room = min(drafts, new_tokens - (len(text) - len(prompt)) - 1)
            proposed, _, _ = self.chain(text, room) if room else ([], [], [])
            stood = 0
            for token in [*proposed, None]:
                right = self._next(text)
                text.append(right)
                if token != right:
                    break
                stood += 1
            accepted.append(stood)
        return text[len(prompt) :], accepted

    def _next(self, text: Sequence[int]) -> int:
        return int(self.target(input_ids=torch.tensor([list(text)])).logits[0, -1].argmax())
