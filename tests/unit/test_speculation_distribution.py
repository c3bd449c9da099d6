"""A hundred thousand tokens through the whole loop follow the model's own distribution, whatever proposes them."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch
from chi_square import chi_square
from runtime_doubles import BundleShape, HistoryProgram, make_bundle

from runtime_shims.reference.acceptance import Verdict
from runtime_shims.reference.adaptive import FixedDrafts
from runtime_shims.reference.generation import generate
from runtime_shims.reference.proposers import DraftModel, PromptLookup, Proposer
from runtime_shims.reference.sampling_settings import SamplingSettings
from runtime_shims.reference.session import Session
from runtime_shims.reference.speculative import Decoding

TOKENS = 100_000
WORDS = 6
ROWS, LENGTH = 50, 100
SHAPE = BundleShape(vocab=WORDS, max_batch=ROWS, max_dec=LENGTH + 8, max_draft=4, eos=(0,))
SETTINGS = SamplingSettings(temperature=1.0, top_k=4)


def table(seed: int) -> torch.Tensor:
    """Logits of the next word by the last one, float32 [WORDS, WORDS]; word 0, the end, never comes."""
    logits = torch.randn(WORDS, WORDS, generator=torch.Generator().manual_seed(seed)) * 1.2
    logits[:, 0] = -math.inf
    return logits


class Chain(HistoryProgram):
    """The next word follows from the last one alone."""

    def __init__(self, *args: object, logits: torch.Tensor) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self.logits = logits

    def _logits(self, row: int, position: int) -> torch.Tensor:
        return self.logits[self.held[row][position]]


def session_of(logits: torch.Tensor) -> Session:
    bundle = make_bundle(SHAPE)
    return Session(bundle, Chain(bundle.manifest.limits, WORDS, logits=logits))


TARGET = table(1)
APART = table(1).roll(2, dims=1).index_fill(1, torch.tensor([0]), -math.inf)
PROPOSERS = {
    "prompt lookup": PromptLookup,
    "a draft model": lambda: DraftModel(session_of(table(2))),
    "a draft that never proposes half of the words": lambda: DraftModel(session_of(APART)),
}


def transitions(proposer: Proposer, tokens: int) -> Counter[tuple[int, int]]:
    """How often a word followed another, over `tokens` new ones of rows with streams of their own."""
    session = session_of(TARGET)
    found: Counter[tuple[int, int]] = Counter()
    for first_row in range(0, tokens // LENGTH, ROWS):
        how = Decoding(SETTINGS, proposer, FixedDrafts(3), first_row=first_row)
        for answer in generate(session, [[1]] * ROWS, max_new_tokens=LENGTH, how=how):
            found.update(zip((1, *answer.tokens), answer.tokens, strict=False))
    assert sum(found.values()) == tokens
    return found


def worst(found: Counter[tuple[int, int]]) -> float:
    """The largest statistic of a word's followers, over its critical value."""
    ratios = []
    for word in range(1, WORDS):
        kept = torch.topk(TARGET[word].double(), SETTINGS.top_k)
        masses = dict(zip(kept.indices.tolist(), torch.softmax(kept.values, 0).tolist(), strict=True))
        followers = Counter({after: count for (before, after), count in found.items() if before == word})
        statistic, critical = chi_square(followers, masses)
        ratios.append(statistic / critical)
    return max(ratios)


@pytest.mark.parametrize("name", PROPOSERS)
def test_a_hundred_thousand_tokens_follow_the_distribution(name: str) -> None:
    assert worst(transitions(PROPOSERS[name](), TOKENS)) < 1.0


def test_a_loop_that_keeps_every_draft_does_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    from runtime_shims.reference import speculative

    monkeypatch.setattr(speculative, "judge", lambda chooser, logits, history, draft, proposal: Verdict(draft, True))
    assert worst(transitions(PROPOSERS["a draft model"](), TOKENS // 10)) > 2.0
