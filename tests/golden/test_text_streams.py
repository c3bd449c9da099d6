"""Replays text_streams.json: tokens whose pieces are bytes, what each one shows, where a stop string ends the row.

The C++ runtime replays it too (`tests/cpp/test_text.cpp`). `shown` is the text that each token makes certain, `rest`
what is shown at the end, `stopped_after` the number of tokens after which a stop string is complete, 0 if none is.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from runtime_shims.contract.pieces import Pieces
from runtime_shims.reference.stop_strings import StopStrings
from runtime_shims.reference.text import PieceDecoder
from runtime_shims.reference.text_stream import CodecStream

TABLE = json.loads(Path(__file__).with_name("text_streams.json").read_text(encoding="utf-8"))
BYTES = tuple(piece.encode("latin-1") for piece in TABLE["pieces"])


@pytest.mark.parametrize("case", TABLE["cases"], ids=[case["name"] for case in TABLE["cases"]])
def test_text_is_shown_and_stopped_as_in_the_golden_table(case: dict[str, Any]) -> None:
    decoder = PieceDecoder(Pieces(BYTES, (0,), case["strip_leading_space"]))
    stream = decoder.stream()
    assert [stream.push(token) for token in case["tokens"]] == case["shown"]
    assert stream.finish() == case["rest"]
    assert decoder.decode(case["tokens"]) == "".join(case["shown"]) + case["rest"]
    watch = StopStrings(case["stops"], decoder.stream).watch()
    found = [watch.push(token) for token in case["tokens"]]
    assert (found.index(True) + 1 if True in found else 0) == case["stopped_after"]


def test_a_tokenizer_that_tells_nothing_of_bytes_also_shows_what_stands_before_half_a_character() -> None:
    class Codec:
        """Bytes of the table, decoded whole, as a tokenizer does it."""

        def decode(self, tokens: Sequence[int]) -> str:
            return b"".join(BYTES[token] for token in tokens).decode(errors="replace")

    stream = CodecStream(Codec())
    assert [stream.push(token) for token in (3, 6, 7, 8, 3, 4)] == ["ab", "a", "", "\u20ac!", "ab", ""]
    assert stream.finish() == "\ufffd"
