"""Stop strings are found wherever tokens cut them, and never shown, not even in part."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime_shims.contract.errors import UserInputError
from runtime_shims.reference.stop_strings import StopStrings, TextGate, cut

texts = st.text("ab", max_size=14)
stops = st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=3)


class Pieces:
    """Token n is piece n."""

    def __init__(self, pieces: list[str]) -> None:
        self.pieces = pieces

    def push(self, token: int) -> str:
        return self.pieces[token]


@settings(max_examples=400, deadline=None)
@given(st.lists(st.text("ab", max_size=3), max_size=10), stops)
def test_a_row_stops_at_the_first_token_after_which_its_text_holds_a_stop_string(
    pieces: list[str], wanted: list[str]
) -> None:
    watch = StopStrings(wanted, lambda: Pieces(pieces)).watch()
    for token in range(len(pieces)):
        text = "".join(pieces[: token + 1])
        found = any(stop in text for stop in wanted)
        assert watch.push(token) == found
        if found:
            return


@settings(max_examples=400, deadline=None)
@given(st.lists(st.text("ab", max_size=3), max_size=10), stops)
def test_what_is_streamed_is_the_text_up_to_the_stop_string(pieces: list[str], wanted: list[str]) -> None:
    watch, gate = StopStrings(wanted, lambda: Pieces(pieces)).watch(), TextGate(wanted)
    text = shown = ""
    for token, piece in enumerate(pieces):
        text += piece
        shown += gate.push(piece)
        assert text.startswith(shown)
        if watch.push(token):
            break
    assert shown + gate.finish() == cut(text, wanted)


def test_text_that_cannot_become_a_stop_string_is_not_held_back() -> None:
    gate = TextGate(["stop"])
    assert [gate.push(piece) for piece in ("go ", "st", "ay ", "s", "to", "p", "more")] == [
        "go ", "", "stay ", "", "", "", "",
    ]  # fmt: skip
    assert gate.finish() == ""


def test_without_stop_strings_everything_passes() -> None:
    gate = TextGate([])
    assert (gate.push("all"), gate.finish()) == ("all", "")


def test_text_is_cut_at_the_stop_string_that_comes_first() -> None:
    assert cut("one two three", ["three", "two"]) == "one "
    assert cut("one", ["two"]) == "one"


@pytest.mark.parametrize("wrong", [[], [""], ["a", ""], [3]])
def test_a_stop_string_has_at_least_one_character(wrong: list[str]) -> None:
    with pytest.raises(UserInputError, match="--stop"):
        StopStrings(wrong, lambda: Pieces([]))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("caf\udcc3", "--stop is not UTF-8 text (byte 3); give it as UTF-8"),
        ("\u00e9\udcff", "--stop is not UTF-8 text (byte 2); give it as UTF-8"),
        ("a\ufffd", "--stop holds U+FFFD, which stands for bytes that are no text; leave it out"),
    ],
)
def test_a_stop_string_that_no_row_can_hold_is_refused_in_one_line(wrong: str, message: str) -> None:
    with pytest.raises(UserInputError) as refusal:
        StopStrings(["fine", wrong], lambda: Pieces([]))
    assert str(refusal.value) == message
