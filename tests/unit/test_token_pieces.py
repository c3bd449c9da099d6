"""The pieces of a tokenizer repeat it on every text, or there are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from test_text import byte_level_tokenizer, metaspace_tokenizer
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from exporter.bundle.pieces import SAMPLES, pieces_of, save_pieces
from runtime_shims.contract.pieces import PIECES_NAME, Pieces, from_json
from runtime_shims.reference.text import PieceDecoder, TextCodec
from tests.support import small_t5
from tests.support.letters import letter_tokenizer

WORDS = ["▁", "▁hello", "▁world", "hel", "lo", "▁na", "ï", "ve", ".", "</s>", "<unk>"]
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
LLAMA = {
    "type": "Sequence",
    "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0},
    ],
}
GEMMA = {"type": "Sequence", "decoders": LLAMA["decoders"][:3]}
T5 = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}


def tokenizer_of(decoder: dict[str, Any] | None, words: list[str], **added: bool) -> PreTrainedTokenizerFast:
    """A tokenizer of these words with this decoder; `added` are tokens and whether they are special."""
    vocab, has_bytes = [(word, -1.0) for word in words], BYTES[0] in words
    tokenizer = Tokenizer(models.Unigram(vocab, unk_id=words.index("<unk>"), byte_fallback=has_bytes))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer = Tokenizer.from_str(json.dumps(json.loads(tokenizer.to_str()) | {"decoder": decoder}))
    tokenizer.add_tokens([AddedToken(name, special=False) for name, special in added.items() if not special])
    tokenizer.add_special_tokens(["</s>", *(name for name, special in added.items() if special)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>", unk_token="<unk>")


def pieces_for(tokenizer: PreTrainedTokenizerFast) -> Pieces:
    pieces = pieces_of(tokenizer, len(tokenizer))
    assert pieces is not None
    return pieces


def check(tokenizer: PreTrainedTokenizerFast, *texts: str) -> Pieces:
    """Pieces that decode every text, and its end from any token on, as the tokenizer does."""
    pieces, codec = pieces_for(tokenizer), TextCodec(tokenizer)
    decoder = PieceDecoder(pieces)
    for text in (*SAMPLES, *texts):
        ids = codec.encode(text)
        for start in range(len(ids)):
            if "\ufffd" not in codec.decode(ids[start:]):  # half a character is shown in as many ways as decoders
                assert decoder.decode(ids[start:]) == codec.decode(ids[start:])
    return pieces


def test_byte_level_tokens_are_bytes() -> None:
    tokenizer = byte_level_tokenizer()
    pieces = check(tokenizer, "é", "a\tb\n")
    assert pieces.special == (0, 1)
    assert sorted(pieces.pieces[2:]) == [bytes([byte]) for byte in range(256)]
    assert not pieces.strip_leading_space


def test_added_tokens_of_a_byte_level_tokenizer_stand_for_themselves() -> None:
    tokenizer = byte_level_tokenizer()
    tokenizer.add_tokens(["<tool>", "two words", "日本"])
    pieces = check(tokenizer, "x <tool> two words 日本")
    assert pieces.pieces[-3:] == (b"<tool>", b"two words", "日本".encode())


@pytest.mark.parametrize(
    ("decoder", "hello", "last"),
    [
        (LLAMA, b" hello", b"\xff"),
        (GEMMA, b" hello", b"\xff"),
        ({"type": "ByteFallback"}, "▁hello".encode(), b"\xff"),
        ({"type": "Fuse"}, "▁hello".encode(), b"<0xFF>"),
    ],
)
def test_spaces_and_bytes_of_sentencepiece_tokens(decoder: dict[str, Any], hello: bytes, last: bytes) -> None:
    pieces = check(tokenizer_of(decoder, [*WORDS, *BYTES]), "hello world", "naïve")
    assert pieces.strip_leading_space is (decoder is LLAMA)
    assert (pieces.pieces[1], pieces.pieces[-1]) == (hello, last)


def test_the_first_space_of_metaspace_tokens_is_taken_off() -> None:
    pieces = check(tokenizer_of(T5, WORDS), "hello world")
    assert pieces.strip_leading_space


@pytest.mark.parametrize("word", ["▁▁two", "in▁side", "▁twice▁"])
def test_a_first_token_that_loses_more_than_a_space_has_no_pieces(word: str) -> None:
    assert pieces_of(tokenizer_of(T5, [*WORDS, word]), len(WORDS) + 1) is None
    never = tokenizer_of(T5 | {"prepend_scheme": "never"}, [*WORDS, word])
    assert pieces_for(never).pieces[-1] == word.replace("▁", " ").encode()


def test_a_space_given_as_a_byte_is_no_space_of_metaspace() -> None:
    """`<0x20>` at the start is kept by the decoder and would be taken off by the table."""
    tokenizer = metaspace_tokenizer()
    assert pieces_of(tokenizer, len(tokenizer)) is None


@pytest.mark.parametrize(
    "decoder",
    [
        None,
        {"type": "WordPiece", "prefix": "##", "cleanup": True},
        {"type": "Replace", "pattern": {"Regex": "▁+"}, "content": " "},
        {"type": "Strip", "content": "_", "start": 1, "stop": 0},
        {"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 2, "stop": 0}]},
        {"type": "Sequence", "decoders": [{"type": "Fuse"}, LLAMA["decoders"][0]]},
    ],
)
def test_decoders_that_no_table_repeats_have_no_pieces(decoder: dict[str, Any] | None) -> None:
    tokenizer = tokenizer_of(decoder, [*WORDS, *BYTES])
    assert pieces_of(tokenizer, len(tokenizer)) is None


def test_special_tokens_and_ids_without_a_token_are_silent() -> None:
    tokenizer = tokenizer_of(GEMMA, [*WORDS, *BYTES], **{"<start>": True, "<tool>": False})
    pieces = pieces_of(tokenizer, len(tokenizer) + 3)
    assert pieces is not None
    assert pieces.pieces[-3:] == (b"", b"", b"")
    start, tool = tokenizer.convert_tokens_to_ids(["<start>", "<tool>"])
    assert start in pieces.special
    assert pieces.decode([start, tool, len(tokenizer)]) == b"<tool>"
    smaller = pieces_of(tokenizer, 20)
    assert smaller is not None
    assert len(smaller.pieces) == 20


def test_tokens_that_a_tokenizer_leaves_out_by_itself_count_as_special() -> None:
    tokenizer = tokenizer_of(GEMMA, [*WORDS, *BYTES], **{"<|0.02|>": False})
    stamp = tokenizer.convert_tokens_to_ids("<|0.02|>")
    assert stamp not in pieces_for(tokenizer).special

    class Silent(PreTrainedTokenizerFast):
        def decode(self, ids: Any, **options: Any) -> str:
            return super().decode(ids, **options).replace("<|0.02|>", "")

    silent = Silent(tokenizer_object=tokenizer.backend_tokenizer, eos_token="</s>", unk_token="<unk>")
    assert stamp in pieces_for(silent).special


def test_a_tokenizer_that_does_not_answer_as_its_decoder_says_has_no_pieces() -> None:
    class Shouting(PreTrainedTokenizerFast):
        def decode(self, ids: Any, **options: Any) -> str:
            return super().decode(ids, **options).upper()

    quiet = byte_level_tokenizer()
    loud = Shouting(tokenizer_object=quiet.backend_tokenizer, bos_token="<s>", eos_token="</s>")
    assert pieces_of(loud, len(loud)) is None
    assert pieces_of(quiet, len(quiet)) is not None


def test_the_tokenizers_of_our_own_models_have_pieces() -> None:
    check(letter_tokenizer(64), "hello world")
    _, tokenizer = small_t5.load()
    check(tokenizer, "abc 123")


def test_what_is_saved_is_read_by_the_runtime(tmp_path: Path) -> None:
    tokenizer = letter_tokenizer(64)
    save_pieces(tmp_path, tokenizer, 64, [[5, 6, 1]])
    assert from_json((tmp_path / PIECES_NAME).read_bytes(), 64) == pieces_of(tokenizer, 64)


@pytest.mark.parametrize("tokenizer", [None, object()])
def test_without_a_fast_tokenizer_nothing_is_saved(tmp_path: Path, tokenizer: object) -> None:
    save_pieces(tmp_path, tokenizer, 64, [])
    assert list(tmp_path.iterdir()) == []


def test_streamed_pieces_are_the_whole_text_and_never_half_a_character() -> None:
    tokenizer = byte_level_tokenizer()
    decoder = PieceDecoder(pieces_for(tokenizer))
    ids = tokenizer("Grüße 👋").input_ids
    stream = decoder.stream()
    parts = [*(stream.push(token) for token in ids), stream.finish()]
    assert "".join(parts) == "Grüße 👋"
    assert not any("\ufffd" in part for part in parts)
