"""Whether a request can take the tokens of a step, asked before the first of them is written.

Shape legend: B rows of the request, C values of a hidden state.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from runtime_shims.contract.errors import CapacityExceeded, UserInputError
from runtime_shims.contract.manifest import Manifest
from runtime_shims.contract.sequence_cursor import SequenceCursor
from runtime_shims.reference.token_rows import TokenRow, TokenRows, check_tokens, items_of, rows_of


def checked_step(
    tokens_per_row: TokenRows, widest: int | None, rows: int, cursor: SequenceCursor, manifest: Manifest
) -> list[tuple[int, ...]]:
    """The tokens to write to the `rows` rows of a request, at most `widest` per row.

    Raises CapacityExceeded when a row cannot take its tokens, UserInputError for anything else that is no step.
    """
    given = rows_of(tokens_per_row, "the step")
    if len(given) != rows:
        raise UserInputError(f"{len(given)} rows of tokens for a request of {rows} rows")
    step = [_checked_row(row, tokens, widest, cursor, manifest) for row, tokens in enumerate(given)]
    if not any(step):
        raise UserInputError("every row of the step is empty; give at least one row a token")
    return step


def check_draft(
    tokens: Sequence[int | None], hidden_BC: Tensor, rows: int, cursor: SequenceCursor, manifest: Manifest
) -> None:
    """Raise UserInputError unless an assistant can draft behind these tokens; a row of None is idle."""
    if manifest.assistant is None:
        raise UserInputError("the bundle has no assistant; export it with --draft mtp")
    width = manifest.assistant.hidden_size
    if len(tokens) != rows or tuple(hidden_BC.shape) != (rows, width):
        raise UserInputError(
            f"{len(tokens)} tokens and states of shape {tuple(hidden_BC.shape)} for a request of "
            f"{rows} rows, each of {width} values"
        )
    empty = [row for row, token in enumerate(tokens) if token is not None and not cursor.length(row)]
    if empty:
        raise UserInputError(f"row {empty[0]} holds no token: call prefill first")
    for row, token in enumerate(tokens):
        if token is not None:
            check_tokens((token,), manifest.tokens.vocab_size, f"row {row} of the draft")


def require_room(row: int, held: int, count: int, most: int) -> None:
    """Raise CapacityExceeded when a row that holds `held` of `most` tokens cannot take `count` more."""
    if held + count > most:
        raise CapacityExceeded(
            f"row {row} holds {held} tokens and cannot take {count} more: the capacity is {most}; "
            f"export with a larger --max-dec"
        )


def _checked_row(
    row: int, tokens: TokenRow, widest: int | None, cursor: SequenceCursor, manifest: Manifest
) -> tuple[int, ...]:
    count = len(items_of(tokens, f"row {row} of the step"))
    if widest is not None and count > widest:
        raise CapacityExceeded(
            f"row {row}: a step of {count} tokens, at most {widest} get logits; export with a larger --max-draft"
        )
    require_room(row, cursor.length(row), count, manifest.limits.max_dec)
    return check_tokens(tokens, manifest.tokens.vocab_size, f"row {row} of the step")
