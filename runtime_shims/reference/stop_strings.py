"""Texts that end a row: found across token boundaries, token by token, and cut from what is shown.

A row ends with the token that completes a stop string; that token is part of the row, the string is no part of its
text. Only new text counts, special tokens have none, and half a character waits for its other half.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from runtime_shims.contract.errors import UserInputError
from runtime_shims.contract.integers import pictured
from runtime_shims.contract.utf_8 import require_utf_8

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class TextPieces(Protocol):
    """Turns a row's tokens into text as they come, see `text_stream.TextStream`."""

    def push(self, token: int) -> str:
        """Add a token; return the text that is now certain, possibly empty."""
        ...


class StopStrings:
    """The stop strings of a run, and how its tokens become text."""

    def __init__(self, texts: Sequence[str], new_stream: Callable[[], TextPieces]) -> None:
        """`new_stream` makes the text of one row. Raises UserInputError without a text, or for one no row can hold."""
        if not texts:
            raise UserInputError("no stop string was given; leave stop strings out, or give --stop a text")
        for text in texts:
            if not isinstance(text, str) or not text:
                raise UserInputError(f"--stop must be a text of at least one character, got {pictured(text)}")
            require_utf_8(text, "--stop")
            if _REPLACEMENT in text:
                raise UserInputError("--stop holds U+FFFD, which stands for bytes that are no text; leave it out")
        self.texts = tuple(texts)
        self._new_stream = new_stream

    def watch(self) -> StopWatch:
        """What watches one row."""
        return StopWatch(self.texts, self._new_stream())


class StopWatch:
    """One row's new text, as far back as a stop string could begin."""

    def __init__(self, texts: tuple[str, ...], stream: TextPieces) -> None:
        self._texts = texts
        self._stream = stream
        self._tail = ""
        self._kept = max(map(len, texts)) - 1  # characters that can begin a stop string which the next token ends

    def push(self, token: int) -> bool:
        """Add an emitted token; whether its text completes a stop string."""
        text = self._tail + self._stream.push(token)
        self._tail = text[max(len(text) - self._kept, 0) :]
        return any(stop in text for stop in self._texts)


def cut(text: str, stops: Sequence[str]) -> str:
    """`text` up to the first stop string in it."""
    found = [at for stop in stops if (at := text.find(stop)) >= 0]
    return text[: min(found)] if found else text


class TextGate:
    """Lets a row's text through as it comes, except for what is a stop string or could become one."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._held = ""
        self._closed = False

    def push(self, piece: str) -> str:
        """Add text; return what may be shown of it and of what was held. Nothing passes after a stop string."""
        if self._closed:
            return ""
        text = self._held + piece
        shown = cut(text, self._stops)
        self._closed = len(shown) < len(text)
        keep = 0 if self._closed else max((_overlap(text, stop) for stop in self._stops), default=0)
        self._held = text[len(text) - keep :] if keep else ""
        return shown[: len(shown) - keep]

    def finish(self) -> str:
        """What is still held: the row ended and it became no stop string."""
        held, self._held = self._held, ""
        return held


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` that begins `stop` and is not all of it."""
    longest = min(len(text), len(stop) - 1)
    return next((length for length in range(longest, 0, -1) if text.endswith(stop[:length])), 0)
