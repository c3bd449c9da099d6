"""The small trained T5 through export, program file and generation: its task done, each row ended with EOS.

The answers are known without a model: the source reversed, then end-of-sequence. So a fault that stock runs and
bundles share would still show here.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from transformers import PreTrainedTokenizerBase

from exporter.pipeline import export_bundle
from exporter.spec.recipe import Recipe
from runtime_shims.contract.bundle_reader import read_bundle
from runtime_shims.reference.generation import Generation, generate
from runtime_shims.reference.loading import open_session
from runtime_shims.reference.session import Session
from tests.support.small_t5 import LONGEST, SMALL_T5, load, strings

MAX_BATCH = 8
TEXTS = strings(40, seed=7)
BATCHES = (8, 1, 3, 8, 2, 8, 5, 5)


@pytest.fixture(scope="module", params=("fused", "portable"))
def session(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Session:
    recipe = Recipe(
        model=str(SMALL_T5),
        max_batch=MAX_BATCH,
        max_enc=LONGEST + 1,
        max_dec=LONGEST + 4,
        max_draft=2,
        prefill_chunk=2,
        attention=request.param,
    )
    path = tmp_path_factory.mktemp("small_t5") / "small_t5.bundle"
    export_bundle(recipe, path)
    return open_session(read_bundle(path))


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerBase:
    return load()[1]


def answer(session: Session, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[Generation]:
    """One request of all `texts`, with the budget that the checkpoint names."""
    sources = [tokenizer(text).input_ids for text in texts]
    return generate(session, [session.manifest.tokens.start] * len(texts), sources)


def reversed_ids(tokenizer: PreTrainedTokenizerBase, text: str) -> tuple[int, ...]:
    """The right answer: the tokenizer appends end-of-sequence."""
    return tuple(tokenizer(text[::-1]).input_ids)


def test_batches_of_every_size_reverse_their_strings_and_end_each_with_eos(
    session: Session, tokenizer: PreTrainedTokenizerBase
) -> None:
    assert sum(BATCHES) == len(TEXTS)
    rest = list(TEXTS)
    for size in BATCHES:
        texts, rest = rest[:size], rest[size:]
        generations = answer(session, tokenizer, texts)
        assert [row.tokens for row in generations] == [reversed_ids(tokenizer, text) for text in texts]
        assert {row.stop_reason for row in generations} == {"eos"}


def test_a_row_answers_the_same_alone_and_beside_longer_rows(
    session: Session, tokenizer: PreTrainedTokenizerBase
) -> None:
    texts = sorted(TEXTS, key=len)[:1] + sorted(TEXTS, key=len)[-7:]
    together = answer(session, tokenizer, texts)
    alone = [answer(session, tokenizer, [text])[0] for text in texts]
    assert [row.tokens for row in together] == [row.tokens for row in alone]


def test_stock_generate_gives_the_same_tokens(session: Session, tokenizer: PreTrainedTokenizerBase) -> None:
    model, texts = load()[0], TEXTS[:MAX_BATCH]
    generations = answer(session, tokenizer, texts)
    for text, row in zip(texts, generations, strict=True):
        stock = model.generate(torch.tensor([tokenizer(text).input_ids]), do_sample=False)[0]
        assert (*session.manifest.tokens.start, *row.tokens) == tuple(stock.tolist())
