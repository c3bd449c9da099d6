"""The text of every token, for runtimes without a tokenizer: `pieces.json`.

    {"kind": "bytes", "strip_leading_space": true, "pieces": ["", " the", "\\u00c3\\u00bc", ...], "special": [0, 1]}

`pieces[id]` are the bytes of a token, each character U+0000 to U+00FF being one byte; there is one for every id of the
vocabulary, empty where an id has no token. The text of token ids is the concatenation of their pieces without those of
`special` ids, in UTF-8; with `strip_leading_space`, without the space it begins with, if it begins with one. Bytes that
are no UTF-8 are part of a character whose other tokens are missing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from runtime_shims.contract.bundle_reader import REPAIR, Bundle
from runtime_shims.contract.errors import BundleCorrupt
from runtime_shims.contract.strict_json import NotStrictJson, parse, shown

PIECES_NAME = "pieces.json"
KIND = "bytes"
_KEYS = ("kind", "strip_leading_space", "pieces", "special")


@dataclass(frozen=True)
class Pieces:
    """The bytes of every token id, which ids are left out of a text, and whether its first space is."""

    pieces: tuple[bytes, ...]
    special: tuple[int, ...]
    strip_leading_space: bool

    def decode(self, tokens: Sequence[int]) -> bytes:
        """The text of token ids below the vocabulary's size, in UTF-8."""
        text = b"".join(self.pieces[token] for token in tokens if token not in self._left_out)
        return text.removeprefix(b" ") if self.strip_leading_space else text

    def bytes_of(self, token: int, is_first: bool) -> bytes:
        """What a token adds to a text; without the space that a text begins with where the tokenizer takes that off."""
        piece = b"" if token in self._left_out else self.pieces[token]
        return piece.removeprefix(b" ") if is_first and self.strip_leading_space else piece

    @cached_property
    def _left_out(self) -> frozenset[int]:
        return frozenset(self.special)


def read_pieces(bundle: Bundle) -> Pieces | None:
    """The pieces of a bundle; None when it lists none: they are not known for every tokenizer.

    Raises BundleCorrupt, naming every fault.
    """
    if not any(entry.path == PIECES_NAME for entry in bundle.manifest.files):
        return None
    return from_json(bundle.file(PIECES_NAME).read_bytes(), bundle.manifest.tokens.vocab_size)


def from_json(text: bytes, vocab_size: int) -> Pieces:
    """The pieces in a JSON text. Raises BundleCorrupt, naming every fault."""
    try:
        data = parse(text)
    except NotStrictJson as error:
        raise BundleCorrupt(PIECES_NAME, [str(error)], REPAIR) from None
    faults = _faults(data, vocab_size)
    if faults or not isinstance(data, dict):
        raise BundleCorrupt(PIECES_NAME, faults, REPAIR)
    pieces = tuple(piece.encode("latin-1") for piece in data["pieces"])
    return Pieces(pieces, tuple(data["special"]), data["strip_leading_space"])


def to_json(pieces: Pieces) -> str:
    """The text that `from_json` reads back as the same value."""
    data = {
        "kind": KIND,
        "strip_leading_space": pieces.strip_leading_space,
        "pieces": [piece.decode("latin-1") for piece in pieces.pieces],
        "special": pieces.special,
    }
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")) + "\n"


def _faults(data: object, vocab_size: int) -> list[str]:
    if not isinstance(data, dict) or set(data) != set(_KEYS):
        return [f"top level: expected an object with exactly the keys {', '.join(_KEYS)}"]
    faults = []
    if data["kind"] != KIND:
        faults.append(f'kind: expected "{KIND}", got {shown(data["kind"])}')
    if not isinstance(data["strip_leading_space"], bool):
        faults.append(f"strip_leading_space: expected true or false, got {shown(data['strip_leading_space'])}")
    return faults + _piece_faults(data["pieces"], vocab_size) + _special_faults(data["special"], vocab_size)


def _piece_faults(pieces: object, vocab_size: int) -> list[str]:
    if not isinstance(pieces, list) or len(pieces) != vocab_size:
        return [f"pieces: expected a list of {vocab_size} (tokens.vocab_size), got {shown(pieces)}"]
    wrong = next((id for id, piece in enumerate(pieces) if not _is_bytes(piece)), None)
    return [] if wrong is None else [f"pieces[{wrong}]: expected characters up to U+00FF, got {shown(pieces[wrong])}"]


def _is_bytes(piece: object) -> bool:
    return isinstance(piece, str) and (piece.isascii() or max(piece) <= "\xff")


def _special_faults(special: object, vocab_size: int) -> list[str]:
    if not isinstance(special, list) or not all(type(id) is int and 0 <= id < vocab_size for id in special):
        return [f"special: expected a list of ids below {vocab_size}, got {shown(special)}"]
    rising = all(before < after for before, after in pairwise(special))
    return [] if rising else ["special: expected rising ids"]
