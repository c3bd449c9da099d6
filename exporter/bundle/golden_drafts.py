"""Golden drafts: what stock transformers' assistant says behind the golden prompts, over caches of exact size.

Shape legend: T tokens, C width of the target's hidden states, V vocabulary.
"""

from __future__ import annotations

import torch
from transformers import PreTrainedModel

from exporter.bundle.tolerances import loosest, rounds
from exporter.spec.capacity_plan import CapacityPlan
from runtime_shims.reference.golden import GoldenRequest
from runtime_shims.reference.golden_drafts import GoldenDraft, GoldenDrafts

DRAFTS = 3
TOP = 5


def make_golden_drafts(
    model: PreTrainedModel, assistant: PreTrainedModel, plan: CapacityPlan, request: GoldenRequest
) -> GoldenDrafts:
    """A chain of drafts for every row of a request, each row alone: greedy, behind the largest of its first logits.

    A draft is made from the state of the one before it, so what the passes of a chain may be off by adds up. Where a
    program rounds, a draft has one logit recorded: others may lie in clusters of words that it just does not look at.
    """
    words = 1 if rounds(plan.recipe) else TOP
    rows = tuple(
        _chain(model, assistant, (*prompt, top[0][0]), words)
        for prompt, top in zip(request.prompts, request.first_logits_top, strict=True)
    )
    largest = max((abs(logit) for row in rows for draft in row for _, logit in draft.top), default=1.0)
    return GoldenDrafts(rows, DRAFTS * loosest(plan.recipe).absolute(largest))


@torch.no_grad()
def _chain(
    model: PreTrainedModel, assistant: PreTrainedModel, text: tuple[int, ...], words: int
) -> tuple[GoldenDraft, ...]:
    """Drafts behind `text`, whose last token is not written yet, with the `words` largest logits of each."""
    written_1T = torch.tensor([text[:-1]])
    states = model(input_ids=written_1T, output_hidden_states=True, return_shared_kv_states=True, use_cache=False)
    hidden_11C, token = states.hidden_states[-1][:, -1:], text[-1]
    drafts: list[GoldenDraft] = []
    for _ in range(DRAFTS):
        embedded_11C = model.get_input_embeddings()(torch.tensor([[token]]))
        drafted = assistant(
            inputs_embeds=torch.cat([embedded_11C, hidden_11C], dim=-1),
            position_ids=torch.tensor([[len(text) - 1]]),
            shared_kv_states=dict(states.shared_kv_states),
            use_cache=False,
        )
        logits_V = drafted.logits[0, -1].float()
        best = torch.topk(logits_V, min(words, logits_V.shape[0]))
        top = tuple((int(word), float(logit)) for logit, word in zip(best.values, best.indices, strict=True))
        drafts.append(GoldenDraft(token, top))
        hidden_11C, token = drafted.last_hidden_state, top[0][0]
    return tuple(drafts)
