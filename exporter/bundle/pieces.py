"""The text of every token, from a fast tokenizer's own decoder, for runtimes that have no tokenizer.

What a decoder does is a short list of steps. Those that change each token on its own are done here, once; a table of
pieces then decodes by concatenation. Decoders with other steps have no such table, and none is written for a tokenizer
whose answers the table does not repeat.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from runtime_shims.contract.pieces import PIECES_NAME, Pieces, to_json
from runtime_shims.reference.text import TextCodec

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_CHUNK = 512
SAMPLES = (
    "Hello world! It's 3.50 dollars,  twice.",
    " A leading space,\ttabs\nand lines.\n\n    indented = code(x)[0]  # end",
    "Grüße aus Zürich; naïve café, señor. Привет, мир. こんにちは世界。안녕하세요 👩‍🚀🎉",
)


class _NoTable(Exception):
    """The decoder does something that no table of pieces repeats."""


@dataclass(frozen=True)
class _Decoder:
    """How a decoder turns tokens into text: steps for each token alone, and what it does to the first space."""

    steps: tuple[dict[str, Any], ...]
    strip_leading_space: bool

    def piece(self, token: str) -> bytes:
        text = token
        for step in self.steps:
            kind = step["type"]
            if kind == "ByteLevel":
                return _byte_level(text)
            if kind == "ByteFallback" and (found := _BYTE_TOKEN.fullmatch(text)):
                return bytes.fromhex(found[1])
            if kind == "Replace":
                text = text.replace(step["pattern"]["String"], step["content"])
            if kind == "Metaspace":
                text = text.replace(step["replacement"], " ")
        return text.encode("utf-8")


def save_pieces(directory: Path, tokenizer: Any | None, vocab_size: int, answers: Iterable[Sequence[int]]) -> None:
    """Write the pieces of `tokenizer` into a bundle, if a table repeats it on its vocabulary, samples and answers."""
    pieces = None if tokenizer is None else pieces_of(tokenizer, vocab_size, answers)
    if pieces is not None:
        (directory / PIECES_NAME).write_text(to_json(pieces), encoding="utf-8")


def pieces_of(tokenizer: Any, vocab_size: int, answers: Iterable[Sequence[int]] = ()) -> Pieces | None:
    """The pieces of a transformers tokenizer; None when it is no fast one or decodes otherwise than a table can."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None or backend.decoder is None:
        return None
    tokens = {id: token for token, id in backend.get_vocab(with_added_tokens=True).items() if id < vocab_size}
    added = backend.get_added_tokens_decoder()
    try:
        decoder = _read_decoder(json.loads(backend.decoder.__getstate__()))
        pieces = Pieces(
            pieces=tuple(decoder.piece(tokens[id]) if id in tokens else b"" for id in range(vocab_size)),
            special=tuple(sorted(id for id, token in added.items() if token.special and id < vocab_size)),
            strip_leading_space=decoder.strip_leading_space,
        )
    except _NoTable:
        return None
    codec = TextCodec(tokenizer)
    pieces = _with_hidden(pieces, codec)
    probes = [*_vocabulary(pieces), *_sample_ids(codec), *answers]
    return pieces if all(_same(pieces, codec, ids) for ids in probes if max(ids, default=0) < vocab_size) else None


def _read_decoder(data: dict[str, Any]) -> _Decoder:
    """Raises _NoTable for a step that is not one of those above, or that comes when tokens are joined already."""
    steps: list[dict[str, Any]] = []
    joined = strip = False
    for step in _flat(data):
        kind = step["type"]
        if strip or (joined and kind not in ("Fuse", "Strip")):
            raise _NoTable(f"{kind} after the tokens are joined")
        if kind == "Strip":
            if not joined or (step["content"], step["start"], step["stop"]) != (" ", 1, 0):
                raise _NoTable("Strip of something else than the text's first space")
            strip = True
        elif kind == "Replace" and "String" not in step["pattern"]:
            raise _NoTable("Replace of a regular expression")
        elif kind not in ("ByteLevel", "ByteFallback", "Replace", "Metaspace", "Fuse"):
            raise _NoTable(kind)
        joined = joined or kind in ("ByteLevel", "Fuse")
        steps.append(step)
    drops = any(step["type"] == "Metaspace" and step["prepend_scheme"] != "never" for step in steps)
    return _Decoder(tuple(steps), strip or drops)


def _flat(data: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if data["type"] != "Sequence":
        yield data
        return
    for inner in data["decoders"]:
        yield from _flat(inner)


def _byte_level(token: str) -> bytes:
    """The bytes that characters stand for; a token with any other character (an added one) stands for itself."""
    if all(character in _BYTES for character in token):
        return bytes(_BYTES[character] for character in token)
    return token.encode("utf-8")


def _byte_alphabet() -> dict[str, int]:
    """Byte-level BPE writes printable bytes as themselves and the others, in order, from U+0100 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + place): byte for place, byte in enumerate(others)}


_BYTES = _byte_alphabet()


def _with_hidden(pieces: Pieces, codec: TextCodec) -> Pieces:
    """The pieces with every token counted as special that the tokenizer leaves out, such as Whisper's time stamps."""
    hidden = set(pieces.special)
    for ids in _vocabulary(pieces):
        if not _same(pieces, codec, ids):
            hidden |= {id for id in ids if pieces.decode([id]) and not codec.decode([id])}
    return replace(pieces, special=tuple(sorted(hidden)))


def _vocabulary(pieces: Pieces) -> list[list[int]]:
    """Every id, many at a time, and alone where that is another text: parts of characters, spaces at the start."""
    many, alone = [], []
    for id, piece in enumerate(pieces.pieces):
        try:
            piece.decode("utf-8")
            many.append(id)
        except UnicodeDecodeError:
            alone.append([id])
        if pieces.strip_leading_space and b" " in piece:
            alone.append([id])
    return [many[start : start + _CHUNK] for start in range(0, len(many), _CHUNK)] + alone


def _sample_ids(codec: TextCodec) -> list[list[int]]:
    """Sample texts, from each of their first tokens on: a text may begin anywhere."""
    encoded = [codec.encode(text) for text in SAMPLES]
    return [ids[start:] for ids in encoded for start in range(min(len(ids), 6))]


def _same(pieces: Pieces, codec: TextCodec, ids: Sequence[int]) -> bool:
    """Whether both give one text; of half a character, whether both miss the rest, which decoders show in many ways."""
    text = codec.decode(ids)
    try:
        return pieces.decode(ids).decode("utf-8") == text
    except UnicodeDecodeError:
        return "\N{REPLACEMENT CHARACTER}" in text
