"""Generation over a session: check the request, run the prompts, decode until every row has stopped.

Shape legend: B rows of the request, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from runtime_shims.contract.errors import UserInputError
from runtime_shims.contract.integers import as_integer, pictured
from runtime_shims.reference.decoding_row import Row, StopReason
from runtime_shims.reference.proposal import NOTHING
from runtime_shims.reference.random_stream import draft_stream, target_stream
from runtime_shims.reference.request import SourceInput, check_prompts
from runtime_shims.reference.sampling import TokenChooser
from runtime_shims.reference.session import Session
from runtime_shims.reference.speculative import Decoding, OnToken, Watch, decode, settle
from runtime_shims.reference.stats import RunStats
from runtime_shims.reference.token_rows import TokenRow, TokenRows, items_of

Budget = int | TokenRow | Sequence[int | None] | None


@dataclass(frozen=True)
class Generation:
    """What one row produced.

    tokens         the new tokens, the end-of-sequence token included
    stop_reason    eos: a token of the model's eos list; stop_string: the text holds one, which the last token
                   completes; max_new_tokens: the budget; capacity: the decoder holds as many positions as it can,
                   the last token has none of its own; none: the row had not ended when it was interrupted
    prompt_tokens  decoder prompt tokens before them
    """

    tokens: tuple[int, ...]
    stop_reason: StopReason | Literal["none"]
    prompt_tokens: int


class GenerationInterrupted(KeyboardInterrupt):
    """An interrupt while prompts run or tokens come; `generations` are the rows as far as they had come."""

    def __init__(self, generations: list[Generation]) -> None:
        super().__init__()
        self.generations = generations


def generate(
    session: Session,
    prompts: TokenRows,
    source: SourceInput | None = None,
    max_new_tokens: Budget = None,
    on_token: OnToken | None = None,
    stats: RunStats | None = None,
    how: Decoding | None = None,
) -> list[Generation]:
    """Generate for all rows of one request, greedily unless `how` says otherwise.

    `prompts` are decoder token ids per row (encoder-decoder: the start tokens), `source` the encoder
    input. `max_new_tokens` is one budget or one per row; without one that of the settings holds, then the bundle's
    setting, and without that the capacity. `on_token(row, token)` is called as each token is emitted. `stats`
    accumulates the cost. Raises UserInputError or CapacityExceeded before anything is written, and
    GenerationInterrupted, between two chunks of a prompt as between two rounds.
    """
    how = Decoding() if how is None else how
    stats = RunStats() if stats is None else stats
    watch = Watch()
    checked = check_prompts(prompts, session.manifest)
    rows = _rows(session, checked, max_new_tokens, how)
    session.begin(checked, source)
    stats.encode_seconds += watch.lap()
    try:
        _prefill(session, rows, source, how, stats, on_token)
        _decode(session, rows, how, stats, on_token)
    except KeyboardInterrupt as interrupt:
        raise GenerationInterrupted([_finished(row) for row in rows]) from interrupt
    finally:
        stats.requests += 1
        stats.new_tokens += sum(row.new_tokens for row in rows)
        stats.decode_tokens += sum(max(row.new_tokens - 1, 0) for row in rows)
    return [_finished(row) for row in rows]


def _prefill(
    session: Session,
    rows: Sequence[Row],
    source: SourceInput | None,
    how: Decoding,
    stats: RunStats,
    on_token: OnToken | None,
) -> None:
    """Run the proposer's prompts and the target's own, and emit each row's first token."""
    watch = Watch()
    if how.proposer is not None:
        how.proposer.begin([tuple(row.context) for row in rows], source, _draft_choosers(rows, how))
    stats.propose_seconds += (proposer_seconds := watch.lap())
    logits_BV = session.prefill()
    stats.prefill_seconds += watch.lap()
    stats.prefill_tokens += sum(row.prompt_length for row in rows)
    for index, row in enumerate(rows):
        settle(index, row, logits_BV[index : index + 1], NOTHING, on_token)
    stats.settle_seconds += (first_seconds := watch.lap())
    stats.decode_seconds += proposer_seconds + first_seconds


def _decode(session: Session, rows: Sequence[Row], how: Decoding, stats: RunStats, on_token: OnToken | None) -> None:
    watch = Watch()
    try:
        decode(session, rows, how, stats, on_token)
    finally:
        stats.decode_seconds += watch.lap()


def _rows(session: Session, prompts: Sequence[Sequence[int]], given: Budget, how: Decoding) -> list[Row]:
    """A row for each prompt, with the random stream of its number within the run."""
    default = how.settings.max_new_tokens
    default = session.manifest.generation.max_new_tokens if default is None else default
    return [
        Row(
            context=list(prompt),
            prompt_length=len(prompt),
            budget=budget,
            limits=session.limits,
            chooser=TokenChooser(
                how.settings,
                session.manifest.tokens,
                len(prompt),
                target_stream(how.settings.seed, how.first_row + index),
            ),
            stop_watch=None if how.stops is None else how.stops.watch(),
        )
        for index, (prompt, budget) in enumerate(zip(prompts, _budgets(given, default, len(prompts)), strict=True))
    ]


def _draft_choosers(rows: Sequence[Row], how: Decoding) -> list[TokenChooser]:
    """The rows' choosers with the draft streams in place of the target's."""
    seed = how.settings.seed
    return [replace(row.chooser, stream=draft_stream(seed, how.first_row + index)) for index, row in enumerate(rows)]


def _budgets(given: Budget, default: int | None, rows: int) -> list[int | None]:
    """One token budget per row. Raises UserInputError for a budget below 1 or a wrong number of them."""
    if given is None:
        return [default] * rows
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


def _finished(row: Row) -> Generation:
    return Generation(row.tokens, row.stop_reason or "none", row.prompt_length)
