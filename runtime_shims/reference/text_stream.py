"""A row's text as its tokens come, never half a character: by a tokenizer, or by the bundle's table of pieces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from runtime_shims.contract.pieces import Pieces

_INCOMPLETE = "\N{REPLACEMENT CHARACTER}"
_LONGEST_CHARACTER = 4  # bytes


class TextStream(Protocol):
    """Turns a row's tokens into text as they come."""

    def push(self, token: int) -> str:
        """Add a token; return the text that is now certain, possibly empty."""
        ...

    def finish(self) -> str:
        """The text still held back, with a replacement character for what never became complete."""
        ...


class Decodes(Protocol):
    """Token ids to text, all at once."""

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of `tokens` without special tokens."""
        ...


class PieceStream:
    """By pieces, which are bytes: what is held back is no more than the beginning of one character.

    Bytes that can no longer become a character are shown as U+FFFD at once, one for each longest beginning of a
    character, as decoding all of them would show them.
    """

    def __init__(self, pieces: Pieces) -> None:
        self._pieces = pieces
        self._held = b""
        self._has_text = False

    def push(self, token: int) -> str:
        """Add a token; return the text that is now certain, possibly empty."""
        piece = self._pieces.bytes_of(token, is_first=not self._has_text)
        self._has_text = self._has_text or bool(self._pieces.bytes_of(token, is_first=False))
        text = self._held + piece
        end = len(text) - _unfinished_bytes(text)
        self._held = text[end:]
        return text[:end].decode("utf-8", errors="replace")

    def finish(self) -> str:
        """The text still held back, with a replacement character for what never became complete."""
        held, self._held = self._held, b""
        return held.decode("utf-8", errors="replace")


class CodecStream:
    """By a tokenizer, which tells nothing of bytes.

    A character may need several tokens, and a token's text may depend on its neighbour (a leading space
    that only appears inside a text). So the text of a token is the difference between decoding a short
    context with and without it. What ends in an incomplete character is shown up to it, and the context waits.
    """

    def __init__(self, codec: Decodes) -> None:
        """`codec` decodes; the stream keeps the tokens."""
        self._codec = codec
        self._tokens: list[int] = []
        self._context_start = 0
        self._emitted_end = 0
        self._shown = 0  # characters behind the context's that have been shown

    def push(self, token: int) -> str:
        """Add a token; return the text that is now certain, possibly empty."""
        self._tokens.append(token)
        known, text = self._decode_tail()
        certain = text.rstrip(_INCOMPLETE)
        if len(certain) < len(text):
            new = certain[len(known) + self._shown :]
            self._shown += len(new)
            return new
        return self._emit(known, text) if len(text) > len(known) else ""

    def finish(self) -> str:
        """The text still held back, with a replacement character for what never became complete."""
        return self._emit(*self._decode_tail())

    def _decode_tail(self) -> tuple[str, str]:
        known = self._codec.decode(self._tokens[self._context_start : self._emitted_end])
        return known, self._codec.decode(self._tokens[self._context_start :])

    def _emit(self, known: str, text: str) -> str:
        new = text[len(known) + self._shown :]
        self._context_start, self._emitted_end, self._shown = self._emitted_end, len(self._tokens), 0
        return new


def _unfinished_bytes(text: bytes) -> int:
    """Bytes at the end of `text` that some more bytes would make a character.

    Not Python's incremental decoder: that one also holds back the first two bytes of a surrogate.
    """
    for count in range(1, min(_LONGEST_CHARACTER, len(text) + 1)):
        start = text[len(text) - count :]
        if start[0] & 0xC0 == 0x80:  # in the middle of a character
            continue
        missing = range(1, _LONGEST_CHARACTER - count + 1)
        begins = any(_is_text(start + filler * more) for filler in (b"\x80", b"\xbf") for more in missing)
        return count if begins else 0
    return 0


def _is_text(text: bytes) -> bool:
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
