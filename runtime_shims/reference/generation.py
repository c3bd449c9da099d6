"""Greedy generation over a session: prefill, choose, step, until every row has stopped.

Shape legend: B rows of the request, V vocabulary.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from runtime_shims.contract.errors import UserInputError
from runtime_shims.contract.integers import as_integer, pictured
from runtime_shims.contract.manifest import TokenRules
from runtime_shims.reference.request import SourceInput, check_prompts
from runtime_shims.reference.sampling import greedy_token
from runtime_shims.reference.session import Session
from runtime_shims.reference.stats import RunStats
from runtime_shims.reference.token_rows import TokenRow, TokenRows, items_of

StopReason = Literal["eos", "max_new_tokens", "capacity"]
OnToken = Callable[[int, int], None]
Budget = int | TokenRow | Sequence[int | None] | None


@dataclass(frozen=True)
class Generation:
    """What one row produced.

    tokens         the new tokens, the end-of-sequence token included
    stop_reason    eos: a token of the model's eos list; max_new_tokens: the budget; capacity: the
                   decoder holds as many positions as it can, the last token has none of its own
    prompt_tokens  decoder prompt tokens before them
    """

    tokens: tuple[int, ...]
    stop_reason: StopReason
    prompt_tokens: int


@dataclass
class _Row:
    """A row in progress."""

    prompt_tokens: int
    budget: int | None
    tokens: list[int] = field(default_factory=list)
    stop_reason: StopReason | None = None


def generate(
    session: Session,
    prompts: TokenRows,
    source: SourceInput | None = None,
    max_new_tokens: Budget = None,
    on_token: OnToken | None = None,
    stats: RunStats | None = None,
) -> list[Generation]:
    """Generate greedily for all rows of one request.

    `prompts` are decoder token ids per row (encoder-decoder: the start tokens), `source` the encoder
    input. `max_new_tokens` is one budget or one per row; without one the bundle's setting holds, and
    without that the capacity. `on_token(row, token)` is called as each token is chosen. `stats`
    accumulates the cost. Raises UserInputError or CapacityExceeded before anything is written.
    """
    stats = RunStats() if stats is None else stats
    checked = check_prompts(prompts, session.manifest)
    budgets = _budgets(max_new_tokens, session.manifest.generation.max_new_tokens, len(checked))
    rows = [_Row(len(prompt), budget) for prompt, budget in zip(checked, budgets, strict=True)]
    started = time.perf_counter()
    session.begin(checked, source)
    encoded = time.perf_counter()
    logits_BV = session.prefill()
    prefilled = time.perf_counter()
    while True:
        _choose(session, rows, logits_BV, on_token)
        if all(row.stop_reason for row in rows):
            break
        logits_BV = session.step([[] if row.stop_reason else row.tokens[-1:] for row in rows])[:, 0]
        stats.steps += 1
    stats.requests += 1
    stats.encode_seconds += encoded - started
    stats.prefill_seconds += prefilled - encoded
    stats.prefill_tokens += sum(row.prompt_tokens for row in rows)
    stats.decode_seconds += time.perf_counter() - prefilled
    new_tokens = sum(len(row.tokens) for row in rows)
    stats.new_tokens += new_tokens
    stats.decode_tokens += new_tokens - len(rows)
    return [_finished(row) for row in rows]


def _choose(session: Session, rows: Sequence[_Row], logits_BV: Tensor, on_token: OnToken | None) -> None:
    """Append one token to every row that has not stopped, and stop those that are done."""
    rules = session.manifest.tokens
    for index, row in enumerate(rows):
        if row.stop_reason is not None:
            continue
        token = greedy_token(logits_BV[index], rules, session.length(index), row.prompt_tokens)
        row.tokens.append(token)
        row.stop_reason = _stop_reason(row, rules, session.can_extend(index, 1))
        if on_token is not None:
            on_token(index, token)


def _stop_reason(row: _Row, rules: TokenRules, has_room: bool) -> StopReason | None:
    """Why `row` ends with its newest token, or None: it goes on."""
    if row.tokens[-1] in rules.eos:
        return "eos"
    if row.budget is not None and len(row.tokens) >= row.budget:
        return "max_new_tokens"
    return None if has_room else "capacity"


def _budgets(given: Budget, bundle_default: int | None, rows: int) -> list[int | None]:
    """One token budget per row. Raises UserInputError for a budget below 1 or a wrong number of them."""
    if given is None:
        return [bundle_default] * rows
    if as_integer(given) is not None or isinstance(given, float | bool):
        return [_budget(given)] * rows
    budgets = items_of(given, "--max-new-tokens of a batch")
    if len(budgets) != rows:
        raise UserInputError(f"{len(budgets)} token budgets for {rows} prompts; give one, or one per prompt")
    return [None if budget is None else _budget(budget) for budget in budgets]


def _budget(given: object) -> int:
    number = as_integer(given)
    if number is None or number < 1:
        raise UserInputError(f"--max-new-tokens must be a whole number of at least 1, got {pictured(given)}")
    return number


def _finished(row: _Row) -> Generation:
    if row.stop_reason is None:
        raise AssertionError("a row was finished before it stopped")
    return Generation(tuple(row.tokens), row.stop_reason, row.prompt_tokens)
