"""Reads id_texts.json with the Python runtime: texts that are token ids, and the words in which others are refused.

A C++ runtime reads the same file (tests/cpp/test_token_ids.cpp).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runtime_shims.contract.errors import UserInputError
from runtime_shims.reference.token_ids import parse_ids

TEXTS = json.loads((Path(__file__).parent / "id_texts.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", TEXTS["accepted"], ids=lambda case: ascii(case["text"]))
def test_plain_decimal_integers_are_ids(case: dict[str, Any]) -> None:
    ids = parse_ids(case["text"], "--ids")
    assert list(ids) == case["ids"]
    assert parse_ids(",".join(map(str, ids)), "--ids") == ids


@pytest.mark.parametrize("case", TEXTS["refused"], ids=lambda case: ascii(case["text"]))
def test_everything_else_is_refused_in_the_words_of_the_table(case: dict[str, Any]) -> None:
    with pytest.raises(UserInputError) as refusal:
        parse_ids(case["text"], "--ids")
    assert str(refusal.value) == case["message"]


def test_a_byte_that_is_no_text_is_shown_as_python_holds_it() -> None:
    with pytest.raises(UserInputError, match=r'^--ids holds "\\udcff\\u0663", which is no token id; '):
        parse_ids("5,\udcff٣", "--ids")
