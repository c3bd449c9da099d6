"""Token ids as callers hold them - lists, NumPy arrays, torch tensors - as tuples of Python integers.

Shape legend: B batch rows, T tokens of a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from runtime_shims.contract.errors import UserInputError
from runtime_shims.contract.integers import as_integer, pictured

TokenRow: TypeAlias = Sequence[int] | NDArray[np.integer[Any]] | Tensor
"""Integers [T]."""

TokenRows: TypeAlias = Sequence[TokenRow] | NDArray[np.integer[Any]] | Tensor
"""Integers: rows of any lengths, or [B, T]."""


def rows_of(values: object, what: str) -> Sequence[Any]:
    """The rows of `values`, not yet looked into. Raises UserInputError for what is no list of rows."""
    if isinstance(values, Tensor | np.ndarray):
        if values.ndim == 2:
            return list(values)
    elif isinstance(values, Sequence) and not isinstance(values, str | bytes):
        return values
    raise UserInputError(f"{what} must be a list with one entry per row, got {_described(values)}")


def items_of(values: object, what: str) -> Sequence[Any]:
    """The items of one row as plain Python values. Raises UserInputError for what is no list of numbers."""
    if isinstance(values, Tensor | np.ndarray):
        if values.ndim == 1:
            items: list[Any] = values.tolist()
            return items
    elif isinstance(values, Sequence) and not isinstance(values, str | bytes):
        return values
    raise UserInputError(f"{what} must be a list of integers, got {_described(values)}")


def check_tokens(tokens: TokenRow, vocab_size: int, where: str) -> tuple[int, ...]:
    """The token ids of one row. Raises UserInputError for an id outside the vocabulary, or one that is no integer."""
    checked = []
    for token in items_of(tokens, where):
        number = as_integer(token)
        if number is None or not 0 <= number < vocab_size:
            raise UserInputError(f"{where} has token id {pictured(token)}; ids are the integers 0..{vocab_size - 1}")
        checked.append(number)
    return tuple(checked)


def check_lengths(lengths: object, rows: int) -> tuple[int, ...]:
    """One encoder length per row. Raises UserInputError for another number of them, or one that is no integer."""
    items = items_of(lengths, "enc_lengths")
    if len(items) != rows:
        raise UserInputError(f"{len(items)} encoder lengths for {rows} encoder inputs; give one per row")
    numbers = []
    for row, item in enumerate(items):
        number = as_integer(item)
        if number is None:
            raise UserInputError(f"the encoder length of row {row} must be an integer, got {pictured(item)}")
        numbers.append(number)
    return tuple(numbers)


def _described(values: object) -> str:
    """A wrong argument in a few words: the type and shape of an array, else its value."""
    if isinstance(values, Tensor | np.ndarray):
        return f"{values.dtype} of shape {tuple(values.shape)}"
    return pictured(values)
