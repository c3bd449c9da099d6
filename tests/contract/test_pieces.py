"""`pieces.json`: read back as written, refused in one line when it is not of that form, decoded by concatenation."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tiny_bundle import write_tiny_bundle

from runtime_shims.contract.bundle_reader import read_bundle
from runtime_shims.contract.errors import BundleCorrupt
from runtime_shims.contract.pieces import Pieces, from_json, read_pieces, to_json

EVERY_BYTE = Pieces((b"", bytes(range(256)), b" the", b"\xe2\x82", b"\xac"), (0,), strip_leading_space=False)


def test_pieces_of_any_bytes_read_back_as_they_were() -> None:
    assert from_json(to_json(EVERY_BYTE).encode(), 5) == EVERY_BYTE


def test_a_text_is_the_concatenation_of_pieces_without_special_tokens() -> None:
    assert EVERY_BYTE.decode([0, 2, 3, 4, 0, 2]).decode() == " the€ the"
    assert EVERY_BYTE.decode([]) == b""


def test_only_the_first_space_of_a_text_is_taken_off() -> None:
    pieces = Pieces((b"</s>", b" ", b" a", b"b"), (0,), strip_leading_space=True)
    assert [pieces.decode(ids) for ids in ([2, 2], [0, 2, 2], [1, 2], [3, 2], [1], [])] == [
        b"a a", b"a a", b" a", b"b a", b"", b"",
    ]  # fmt: skip


def piece(id: int, value: object) -> Callable[[dict[str, Any]], object]:
    return lambda data: data["pieces"].__setitem__(id, value)


def changed(**keys: Any) -> Callable[[dict[str, Any]], object]:
    return lambda data: data.update(keys)


CASES: list[tuple[Callable[[dict[str, Any]], object], str]] = [
    (changed(more=1), "top level: expected an object with exactly the keys kind, strip_leading_space, pieces, special"),
    (lambda data: data.pop("special"), "top level: expected an object with exactly the keys"),
    (changed(kind="text"), 'kind: expected "bytes", got "text"'),
    (changed(strip_leading_space=1), "strip_leading_space: expected true or false, got 1"),
    (changed(pieces=["a"]), "pieces: expected a list of 5 (tokens.vocab_size), got a list of 1"),
    (changed(pieces=5), "pieces: expected a list of 5 (tokens.vocab_size), got 5"),
    (piece(2, "\u0100"), 'pieces[2]: expected characters up to U+00FF, got "\\u0100"'),
    (piece(3, None), "pieces[3]: expected characters up to U+00FF, got null"),
    (changed(special=[5]), "special: expected a list of ids below 5, got a list of 1"),
    (changed(special=[True]), "special: expected a list of ids below 5"),
    (changed(special=[-1]), "special: expected a list of ids below 5"),
    (changed(special=[1, 1]), "special: expected rising ids"),
    (changed(special=[2, 1]), "special: expected rising ids"),
]


@pytest.mark.parametrize(("change", "fault"), CASES, ids=[case[1][:50] for case in CASES])
def test_pieces_of_another_form_are_refused_in_one_line(change: Callable[[dict[str, Any]], object], fault: str) -> None:
    data = json.loads(to_json(EVERY_BYTE))
    change(data)
    with pytest.raises(BundleCorrupt) as refusal:
        from_json(json.dumps(data).encode(), 5)
    assert fault in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("text", [b"{", b"[]", b"\xff", b'{"kind": "bytes", "kind": "bytes"}'])
def test_what_is_no_object_of_json_is_refused(text: bytes) -> None:
    with pytest.raises(BundleCorrupt, match=r"pieces\.json"):
        from_json(text, 5)


def test_a_bundle_that_lists_none_has_none(tmp_path: Path) -> None:
    assert read_pieces(read_bundle(write_tiny_bundle(tmp_path / "bundle"))) is None
