"""An assistant drafts what transformers' own does over caches that hold nothing but tokens that stand.

Shape legend: see `tests/support/stock_drafts.py`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import Tensor

from exporter.bundle.tolerances import TOLERANCES
from exporter.cache.attention_binding import BINDING_ATTRIBUTE, bind
from exporter.models.assistant import LOWEST_LOGIT
from exporter.models.fixed_capacity_model import attention_modules
from exporter.spec.assistant import AssistantSpec
from exporter.spec.faults import PlanError
from exporter.spec.model_spec import ModelSpec
from runtime_shims.contract.errors import UserInputError
from runtime_shims.reference.adaptive import FixedDrafts, measure
from runtime_shims.reference.assistant_drafts import AssistantDrafts
from runtime_shims.reference.generation import generate
from runtime_shims.reference.session import Session
from runtime_shims.reference.speculative import Decoding
from runtime_shims.reference.stats import RowRound
from tests.parity.programs import GEMMA4, GEMMA4_ONNX, Lowered, on
from tests.parity.support import ASSISTANTS, Drafter, Planned
from tests.support.stock_drafts import StockDrafts
from tests.support.tiny_configs import WINDOW
from tests.support.tiny_models import build, tokens

ATTENTIONS = ("fused", "portable", "onnx")
DRAFTS = 3
ALLOWED = DRAFTS * TOLERANCES["float32", "eager"].relative
"""A draft is made from the state of the last one: what the passes of a round are off by adds up."""
TEXT = tokens(1, 6 * WINDOW)[0].tolist()


@cache
def stock(drafter: str) -> StockDrafts:
    return StockDrafts(build("gemma4"), ASSISTANTS[drafter]())


def session_of(attention: str, drafter: Drafter) -> Session:
    planned = Planned.of("gemma4", attention, drafter=drafter)
    return planned.session(planned.methods)


def difference(session: Session, row: int, text: list[int], drafter: str) -> float:
    """Run `row` alone through a round of drafts behind `text`, all of it written but the last token."""
    wanted, logits, states = stock(drafter).chain(text, DRAFTS)
    rows, last, largest = session.rows, text[-1], 0.0
    hidden_BC = torch.zeros(rows, session.hidden_size)
    hidden_BC[row] = session.last_hidden(row)
    for token, logits_V, state_C in zip(wanted, logits, states, strict=True):
        got_BV, hidden_BC = session.draft([last if at == row else None for at in range(rows)], hidden_BC)
        seen = got_BV[row] > LOWEST_LOGIT / 2
        largest = max(largest, off_by(got_BV[row, seen], logits_V[seen]), off_by(hidden_BC[row], state_C))
        assert int(got_BV[row].argmax()) == token
        last = token
    return largest


def off_by(got: Tensor, want: Tensor) -> float:
    return float((got - want).abs().max()) / max(1.0, float(want.abs().max()))


@pytest.mark.parametrize("drafter", ["plain", "clustered"])
@pytest.mark.parametrize("attention", ATTENTIONS)
def test_drafts_behind_any_length_equal_those_over_caches_of_exact_size(attention: str, drafter: Drafter) -> None:
    """Prompts of one token up to five windows, beside a row of another length."""
    session = session_of(attention, drafter)
    for length in (1, 2, WINDOW - 1, WINDOW, WINDOW + 1, WINDOW + 2, WINDOW + 3, 5 * WINDOW):
        session.begin([TEXT[: max(1, length - 3)], TEXT[:length]])
        session.prefill()
        assert difference(session, 1, TEXT[: length + 1], str(drafter)) <= ALLOWED


@pytest.mark.parametrize("more", [-1, 1])
def test_a_window_of_one_position_more_or_less_is_noticed(more: int) -> None:
    """The control of the tests above."""
    planned = Planned.of("gemma4", "portable", drafter="plain")
    session = planned.session(planned.methods)
    for _, module in attention_modules(planned.methods["draft"].root.assistant):
        binding = getattr(module, BINDING_ATTRIBUTE)
        if binding.own_window is not None:
            bind(module, replace(binding, own_window=binding.own_window + more))
    session.begin([TEXT[: 5 * WINDOW]])
    session.prefill()
    _, logits, _ = stock("plain").chain(TEXT[: 5 * WINDOW + 1], 1)
    got_BV, _ = session.draft([TEXT[5 * WINDOW]], session.last_hidden(0)[None])
    assert off_by(got_BV[0], logits[0]) > 100 * ALLOWED


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_tokens_that_were_rejected_are_never_seen(attention: str) -> None:
    """After every round some of the block is taken back; the next drafts are those of a text without it."""
    session = session_of(attention, "plain")
    session.begin([TEXT[:5]])
    session.prefill()
    length = 5
    for kept in (1, 3, 2, 1, 4, 1, 2, 1, 3, 1, 1, 2):
        wrong = [(token + 1) % 60 + 2 for token in TEXT[length + kept : length + 4]]
        session.step([TEXT[length : length + kept] + wrong])
        session.rollback(0, 4 - kept)
        length += kept
        assert difference(session, 0, TEXT[: length + 1], "plain") <= ALLOWED


@on(GEMMA4, GEMMA4_ONNX)
def test_greedy_rounds_accept_what_exact_caches_accept_and_the_text_is_plain_greedy(lowered: Lowered) -> None:
    """Three ragged rows past several windows."""
    session = lowered.session
    prompts = [tokens(1, 9, seed)[0].tolist()[: 4 + seed] for seed in range(3)]
    rounds: list[list[RowRound]] = []
    how = Decoding(
        proposer=AssistantDrafts(session), drafts=FixedDrafts(DRAFTS), on_round=lambda row: rounds.append(list(row))
    )
    drafted = generate(session, prompts, max_new_tokens=40, how=how)
    plain = generate(session, prompts, max_new_tokens=40)
    assert [row.tokens for row in drafted] == [row.tokens for row in plain]
    for row, prompt in enumerate(prompts):
        expected, accepted = stock("plain").generate(prompt, 40, DRAFTS)
        assert list(drafted[row].tokens) == expected
        assert [outcome[row].accepted for outcome in rounds if outcome[row].emitted] == accepted


@on(GEMMA4)
def test_speeds_with_an_assistant_are_measured_and_leave_no_request(lowered: Lowered) -> None:
    lowered.session.end()
    model = measure(lowered.session, 2, assisted=True)
    assert len(model.verify) == lowered.session.limits.max_logit_rows
    assert model.draft > 0
    assert lowered.session.rows == 0


def test_what_an_assistant_needs_is_asked_for_in_one_line() -> None:
    session = session_of("portable", "plain")
    session.begin([TEXT[:5], TEXT[:2]])
    with pytest.raises(UserInputError, match="no state to draft from"):
        session.last_hidden(0)
    session.prefill()
    states = torch.zeros(2, session.hidden_size)
    with pytest.raises(UserInputError, match="for a request of 2 rows"):
        session.draft([1], states)
    with pytest.raises(UserInputError, match="row 1 of the draft"):
        session.draft([1, 64], states)
    session.rollback(0, 2)
    with pytest.raises(UserInputError, match="no state to draft from"):
        session.last_hidden(0)


def test_an_assistant_of_another_model_is_refused_with_everything_in_which_it_differs() -> None:
    config = ASSISTANTS["plain"]().config
    with pytest.raises(PlanError) as refused:
        AssistantSpec.from_config(config, ModelSpec.from_config(build("gemma3").config))
    assert "it assists gemma4_text" in str(refused.value)
    assert "heads of 20" in str(refused.value)


def test_the_ring_of_a_donor_keeps_what_the_assistant_looks_back_on() -> None:
    """Two positions more than a query of the target would need, and only where the assistant reads."""
    plain, assisted = (Planned.of("gemma4", "portable", drafter=drafter).plan for drafter in (None, "plain"))
    pairs = zip(plain.self_caches, assisted.self_caches, strict=True)
    more = [two.geometry.reach - one.geometry.reach for one, two in pairs]
    assert [cache.kind for cache in plain.self_caches] == ["sliding", "full", "sliding"]
    assert more == [0, 0, 2]
    assert [cache.window for cache in assisted.self_caches] == [cache.window for cache in plain.self_caches]


