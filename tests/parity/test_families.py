"""Every family on the cached rung, in every spelling, equals stock transformers however its rows are fed.

The same for program files: `tests/families`.
"""

from __future__ import annotations

from functools import cache

import pytest
from torch import Tensor

from exporter.bundle.tolerances import TOLERANCES
from runtime_shims.reference.generation import generate
from tests.parity.schedules import Request, compare, start, wander
from tests.parity.support import DEFAULT, StockModel, module_session
from tests.support.tiny_models import CASES

ATTENTIONS = ("fused", "portable", "onnx")
TEXT_LENGTHS, SOURCE_LENGTHS, PROMPT_LENGTHS = (70, 31, 52, 44), (24, 1, 9, 17), (3, 23, 12, 1)


@cache
def stock_logits(case: str) -> tuple[Request, list[Tensor]]:
    """Texts past many windows and the stock model's logits for them: one answer for every spelling."""
    stock = StockModel(case)
    request = Request.random(stock, TEXT_LENGTHS, SOURCE_LENGTHS)
    return request, request.expected(stock)


@cache
def stock_tokens(case: str) -> tuple[Request, list[tuple[int, ...]]]:
    """Prompts and the 20 tokens that greedy decoding puts behind each."""
    stock = StockModel(case)
    request, rules = Request.random(stock, PROMPT_LENGTHS, SOURCE_LENGTHS, seed=3), stock.rules(DEFAULT.max_dec)
    sources = request.sources or (None,) * len(request.texts)
    rows = zip(request.texts, sources, strict=True)
    return request, [stock.greedy(prompt, source, 20, rules) for prompt, source in rows]


@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("case", CASES)
def test_ragged_steps_idle_rows_and_rollbacks_equal_stock(case: str, attention: str) -> None:
    """A full batch past many windows, then two of its rows in another order over what the first left."""
    session = module_session(case, attention)
    request, expected = stock_logits(case)
    answers = [*start(session, request, PROMPT_LENGTHS), *wander(session, request, seed=1)]
    found = compare(iter(answers), expected)
    assert found.passed, found
    order = (3, 1)
    reordered = request.rows(order)
    answers = [*start(session, reordered, (1, 12)), *wander(session, reordered, seed=2)]
    found = compare(iter(answers), [expected[row] for row in order])
    assert found.passed, found


@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("case", CASES)
def test_greedy_tokens_of_a_ragged_batch_equal_stock(case: str, attention: str) -> None:
    session = module_session(case, attention)
    request, expected = stock_tokens(case)
    got = generate(session, request.texts, request.session_source, max_new_tokens=20)
    assert [row.tokens for row in got] == expected


@pytest.mark.parametrize("case", CASES)
def test_the_stock_models_own_rounding_is_well_below_the_tolerance(case: str) -> None:
    """Float32 against float64: were it larger, the tests above would measure rounding."""
    request, single = stock_logits(case)
    stock = StockModel(case)
    stock.in_double()
    exact = request.in_double().expected(stock)
    largest = max(float(logits.abs().max()) for logits in single)
    rounding = max(float((a - b).abs().max()) for a, b in zip(single, exact, strict=True))
    assert rounding < TOLERANCES["float32", "eager"].absolute(largest) / 2
