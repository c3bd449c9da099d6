"""T5-small's exact geometry with seeded weights: one load of one program, every batch and source length.

No package carries T5's weights, so they are drawn; arithmetic, shapes and program are those of the model.
Stock eager runs each source without padding. Rows of one source length share an eager batch, which needs no
mask; `oracle.py` says why one pass over the finished rows judges every greedy choice.

Drawn weights with tied embeddings answer greedily with the token they were given, whatever was said before.
So every request also reads more random tokens, one to five per step, and each one's logits are compared.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from exporter.bundle.tolerances import TOLERANCES
from exporter.spec.model_source import resolve_source
from exporter.spec.recipe import Recipe
from runtime_shims.contract.errors import CapacityExceeded
from runtime_shims.reference.loading import open_session
from runtime_shims.reference.session import Session
from tests.real.exports import FORMS, Exports, backend_of
from tests.real.oracle import margins, teacher_forced_logits
from tests.real.summary import Summary
from tests.support.shared import THREADS

pytestmark = pytest.mark.real

MAX_BATCH, MAX_ENC = 8, 512
GREEDY_TOKENS, READ_TOKENS = 24, 64
SHAPES = [(batch, length) for batch in (1, 3, MAX_BATCH) for length in (1, 7, 200, MAX_ENC - 1, MAX_ENC)]
MIXED_LENGTHS = (MAX_ENC, 1, 7, 200, MAX_ENC - 1, 2, 64, 333)
Rows = list[list[int]]


@dataclass(frozen=True)
class Answer:
    """What a session said to rows of one request.

    tokens  int64 [B, T], what it read after the start token: its own greedy choices, or given tokens
    logits  float32 [B, T, V] at the start token and at every token but the last
    """

    tokens: Tensor
    logits: Tensor


@pytest.fixture(scope="module")
def eager() -> PreTrainedModel:
    """The model the command line exports: the same geometry and seed, in stock transformers."""
    return resolve_source(Recipe(model="t5-small", random_weights=True)).load_model()


@pytest.fixture(scope="module", params=FORMS)
def form(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def session(exports: Exports, form: str) -> Session:
    """The one load of the program that every request of this file runs on."""
    return open_session(exports.bundle("t5-small", form), threads=THREADS)


def random_rows(lengths: Sequence[int], seed: int) -> Rows:
    """Random token ids, one row per length."""
    numbers = random.Random(seed)
    return [[numbers.randrange(2, 32_000) for _ in range(length)] for length in lengths]


def begin(session: Session, source: Rows) -> Tensor:
    session.begin([session.manifest.tokens.start] * len(source), source)
    return session.prefill()


def greedy(session: Session, source: Rows) -> Answer:
    """Greedy tokens, as many for each row; end-of-sequence is a token like any other."""
    logits_BV = begin(session, source)
    tokens, logits = [], []
    for _ in range(GREEDY_TOKENS):
        logits.append(logits_BV.clone())
        tokens.append(logits_BV.argmax(dim=-1))
        logits_BV = session.step(tokens[-1][:, None].tolist())[:, 0]
    return Answer(torch.stack(tokens, dim=1), torch.stack(logits, dim=1))


def reading(session: Session, source: Rows, seed: int) -> Answer:
    """Random tokens, as many for each row, read in steps of one to five tokens."""
    numbers = random.Random(seed)
    tokens = random_rows([READ_TOKENS] * len(source), seed)
    parts = [begin(session, source)[:, None].clone()]
    at = 0
    while at < READ_TOKENS - 1:
        end = min(at + numbers.randint(1, session.limits.max_logit_rows), READ_TOKENS - 1)
        parts.append(session.step([row[at:end] for row in tokens]).clone())
        at = end
    return Answer(torch.tensor(tokens), torch.cat(parts, dim=1))


def eager_logits(eager: PreTrainedModel, source: Rows, tokens_BT: Tensor) -> Tensor:
    """Stock logits float32 [B, T, V] for an answer's tokens, each source length in a batch of its own."""
    start_B1 = torch.full((len(source), 1), eager.config.decoder_start_token_id)
    decoder_BT = torch.cat([start_B1, tokens_BT[:, :-1]], dim=1)
    logits_BTV = torch.empty(*decoder_BT.shape, eager.config.vocab_size)
    for length in sorted({len(row) for row in source}):
        rows = [index for index, row in enumerate(source) if len(row) == length]
        sources = torch.tensor([source[row] for row in rows])
        logits_BTV[rows] = teacher_forced_logits(eager, sources, decoder_BT[rows])
    return logits_BTV


def difference(expected: Tensor, got: Tensor, backend: str) -> float:
    """Largest difference of a logit, asserted to be within the table's tolerance."""
    found = float((expected - got).abs().max())
    assert found <= allowed_difference(expected, backend)
    return found


def allowed_difference(expected: Tensor, backend: str) -> float:
    return TOLERANCES["float32", backend].absolute(float(expected.abs().max()))


def check(session: Session, eager: PreTrainedModel, source: Rows, seed: int) -> tuple[float, float]:
    """Check both kinds of answer; return the largest difference and the smallest greedy margin."""
    backend = session.manifest.programs[0].backend
    chosen = greedy(session, source)
    expected = eager_logits(eager, source, chosen.tokens)
    assert torch.equal(expected.argmax(dim=-1), chosen.tokens)
    read = reading(session, source, seed)
    found = max(
        difference(expected, chosen.logits, backend),
        difference(eager_logits(eager, source, read.tokens), read.logits, backend),
    )
    return found, float(margins(expected).min())


def test_every_batch_and_source_length_equals_unpadded_eager_in_any_order(
    session: Session, form: str, eager: PreTrainedModel, summary: Summary
) -> None:
    order = random.Random(8).sample(SHAPES, len(SHAPES))
    findings = [
        check(session, eager, random_rows([length] * batch, seed=index), seed=index + 50)
        for index, (batch, length) in enumerate(order)
    ]
    differences, smallest = zip(*findings, strict=True)
    summary.add(
        "t5-small",
        form,
        f"{len(order)} shapes, {GREEDY_TOKENS} greedy tokens equal, smallest margin {min(smallest):.2g}; "
        f"logits of these and of {READ_TOKENS} random tokens within {max(differences):.2g}",
    )


def test_rows_of_different_source_lengths_share_a_batch(
    session: Session, form: str, eager: PreTrainedModel, summary: Summary
) -> None:
    found, _ = check(session, eager, random_rows(MIXED_LENGTHS, seed=100), seed=101)
    summary.add("t5-small", form, f"sources of {list(MIXED_LENGTHS)} tokens in one batch, {found:.2g}")


def test_a_source_that_lost_its_last_token_would_be_noticed(eager: PreTrainedModel) -> None:
    source, tokens = random_rows([7], seed=102), torch.tensor(random_rows([READ_TOKENS], seed=103))
    whole = eager_logits(eager, source, tokens)
    shortened = eager_logits(eager, [source[0][:-1]], tokens)
    allowed = max(allowed_difference(whole, backend_of(form)) for form in FORMS)
    assert float((whole - shortened).abs().max()) > 2 * allowed


@pytest.mark.parametrize(
    ("lengths", "option"),
    [([3] * (MAX_BATCH + 1), "--max-batch"), ([5, MAX_ENC + 1], "--max-enc")],
    ids=["a ninth row", "a 513th position"],
)
def test_one_more_than_fits_is_refused_in_one_line_and_the_session_goes_on(
    session: Session, lengths: list[int], option: str
) -> None:
    source = random_rows([9, 4], seed=104)
    before = reading(session, source, seed=105)
    with pytest.raises(CapacityExceeded) as refused:
        begin(session, random_rows(lengths, seed=106))
    assert "\n" not in str(refused.value)
    assert option in str(refused.value)
    assert torch.equal(before.logits, reading(session, source, seed=105).logits)
