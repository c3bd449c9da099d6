"""Text that bundle-runner prints as it comes: characters spread over tokens, stop strings, in the order of Python."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from runtime_shims.contract.bundle_reader import read_bundle, sha256_of
from runtime_shims.contract.pieces import PIECES_NAME, Pieces, to_json
from tests.runner.conftest import edit
from tests.runner.runner import run_both

PARTS = (b"F", b"\xc3", b"b", b"F\xe2\x82", b"\xac ", b"\xa9", b"\xff", b"ab")
"""Every token is one of these: letters, and bytes that are a character together or not at all."""
STOPS = ("--stop", "FF", "--stop", "b ")


@pytest.fixture(scope="module")
def bytes_bundle(gemma3: Path) -> Path:
    """The windowed decoder with pieces that are bytes."""
    bundle = gemma3.with_name("bytes.bundle")
    shutil.copytree(gemma3, bundle, copy_function=os.link)
    vocab = read_bundle(bundle).manifest.tokens.vocab_size
    path = bundle / PIECES_NAME
    path.unlink(missing_ok=True)
    path.write_text(to_json(Pieces(tuple(PARTS[id % len(PARTS)] for id in range(vocab)), (), False)), encoding="utf-8")
    entry = {
        "path": PIECES_NAME, "role": "tokenizer", "sha256": sha256_of(path), "size_bytes": path.stat().st_size
    }  # fmt: skip

    def list_it(manifest: dict) -> None:
        manifest["files"] = [file for file in manifest["files"] if file["path"] != PIECES_NAME] + [entry]

    edit(bundle, list_it)
    return bundle


def test_what_is_still_held_when_a_row_ends_is_printed_in_its_order(
    bytes_bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rests = []
    for length in range(1, 25):
        drawn = ("--temperature", 5, "--seed", length, "--max-new-tokens", length, *STOPS)
        found, wanted = run_both(capsys, bytes_bundle, "--ids", "5", *drawn, "--stream", "--json")
        assert (found.code, wanted.code) == (0, 0), found.err
        *events, last = map(json.loads, found.out.splitlines())
        assert events == [json.loads(line) for line in wanted.out.splitlines()[:-1]]
        assert "".join(event["text"] for event in events) == last["generations"][0]["text"]
        assert last["generations"] == json.loads(wanted.out.splitlines()[-1])["generations"]
        rests += [event["text"] for event in events if event["token"] is None]
    assert "F\ufffd" in rests  # a letter that could begin a stop string, and then half a character
