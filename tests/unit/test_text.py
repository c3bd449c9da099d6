"""Text in and out with the bundle's tokenizer; streamed text never shows half a character."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runtime_doubles import BundleShape, make_bundle
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from runtime_shims.contract.bundle_reader import Bundle
from runtime_shims.contract.errors import UserInputError
from runtime_shims.contract.manifest import FileEntry
from runtime_shims.reference.text import TextCodec, load_text_codec

TEMPLATE = (
    "{% for m in messages %}{% if m['role'] == 'system' and m['content'] == 'bad' %}"
    "{{ raise_exception('no such system') }}{% endif %}{{ m['role'] + ':' + m['content'] + '|' }}"
    "{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}"
)


def byte_level_tokenizer(chat_template: str | None = None) -> PreTrainedTokenizerFast:
    """One token per byte, as GPT-2 spells them; adds <s> in front and </s> behind."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {"<s>": 0, "</s>": 1} | {letter: index + 2 for index, letter in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")
    if chat_template is not None:
        fast.chat_template = chat_template
    return fast


def metaspace_tokenizer() -> PreTrainedTokenizerFast:
    """Pieces with a space mark, single letters and byte fallback, as SentencePiece models have them."""
    pieces = ["<unk>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    pieces += ["▁", "▁hello", "▁world", "hel", "lo"] + [chr(c) for c in range(33, 127)]
    vocab = [(piece, -float(len(pieces) if piece.startswith("<0x") else 1)) for piece in pieces]
    tokenizer = Tokenizer(models.Unigram(vocab, unk_id=0, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(), decoders.Fuse()])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>", unk_token="<unk>")


CODECS = {"byte level": TextCodec(byte_level_tokenizer()), "metaspace": TextCodec(metaspace_tokenizer())}


def bundle_with_tokenizer(root: Path) -> Bundle:
    listed = FileEntry("tokenizer/tokenizer.json", "tokenizer", "0" * 64, 0)
    return make_bundle(BundleShape(files=(listed,)), root)


def streamed(codec: TextCodec, tokens: list[int]) -> list[str]:
    stream = codec.stream()
    return [*(stream.push(token) for token in tokens), stream.finish()]


@pytest.mark.parametrize("name", CODECS)
@settings(max_examples=150, deadline=None)
@given(
    text=st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\ufffd▁"), max_size=20)
)
def test_streamed_text_is_the_whole_text_and_never_half_a_character(name: str, text: str) -> None:
    codec = CODECS[name]
    tokens = codec.encode(text)
    pieces = streamed(codec, tokens)
    assert "".join(pieces) == codec.decode(tokens)
    assert not any("\ufffd" in piece for piece in pieces)


def test_spaces_between_words_survive_streaming() -> None:
    codec = CODECS["metaspace"]
    tokens = codec.encode("hello world hello")
    assert "".join(streamed(codec, tokens)) == "hello world hello"


def test_a_character_that_never_completes_is_shown_at_the_end() -> None:
    codec = CODECS["byte level"]
    whole = codec.encode("é")
    pieces = streamed(codec, whole[:-2])
    assert pieces == ["", "", "\ufffd"]


def test_special_tokens_are_not_part_of_the_text() -> None:
    codec = CODECS["byte level"]
    tokens = codec.encode("hi")
    assert (tokens[0], tokens[-1]) == (0, 1)
    assert codec.decode(tokens) == "hi"


def test_a_chat_is_written_in_the_template_without_doubled_special_tokens() -> None:
    codec = TextCodec(byte_level_tokenizer(TEMPLATE))
    tokens = codec.encode_chat("hi", "be brief")
    assert codec.decode(tokens) == "system:be brief|user:hi|assistant:"
    assert 0 not in tokens
    assert codec.decode(codec.encode_chat("hi", None)) == "user:hi|assistant:"


def test_a_chat_without_a_template_is_refused() -> None:
    with pytest.raises(UserInputError, match="without --chat"):
        CODECS["byte level"].encode_chat("hi", None)


def test_a_template_that_refuses_the_system_text_says_so() -> None:
    with pytest.raises(UserInputError, match="no such system"):
        TextCodec(byte_level_tokenizer(TEMPLATE)).encode_chat("hi", "bad")


def test_the_tokenizer_is_read_from_the_bundle(tmp_path: Path) -> None:
    byte_level_tokenizer(TEMPLATE).save_pretrained(tmp_path / "tokenizer")
    codec = load_text_codec(bundle_with_tokenizer(tmp_path))
    assert codec.encode("hi") == CODECS["byte level"].encode("hi")
    assert codec.decode(codec.encode_chat("hi", None)) == "user:hi|assistant:"


def test_a_bundle_without_a_tokenizer_asks_for_ids(tmp_path: Path) -> None:
    with pytest.raises(UserInputError, match="--ids"):
        load_text_codec(make_bundle(root=tmp_path))


def test_an_unreadable_tokenizer_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "tokenizer").mkdir()
    (tmp_path / "tokenizer" / "tokenizer.json").write_text("{")
    with pytest.raises(UserInputError, match="cannot be loaded") as caught:
        load_text_codec(bundle_with_tokenizer(tmp_path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("settings", ["[]", "3", "{", '"x"'])
def test_a_tokenizer_whose_settings_have_the_wrong_form_is_one_line(tmp_path: Path, settings: str) -> None:
    byte_level_tokenizer().save_pretrained(tmp_path / "tokenizer")
    bundle = bundle_with_tokenizer(tmp_path)
    load_text_codec(bundle)
    (tmp_path / "tokenizer" / "tokenizer_config.json").write_text(settings)
    with pytest.raises(UserInputError, match=r"^the bundle's tokenizer cannot be loaded \(.*; export") as caught:
        load_text_codec(bundle)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS.keys())
def test_a_text_that_is_not_utf_8_is_refused_in_one_line(codec: TextCodec) -> None:
    with pytest.raises(UserInputError) as refusal:
        codec.encode("caf\udcc3")
    assert str(refusal.value) == "the prompt is not UTF-8 text (byte 3); give it as UTF-8"
    assert codec.decode(codec.encode("café")) == "café"


@pytest.mark.parametrize("text", [None, 3, b"caf"])
def test_what_is_no_text_is_refused_in_one_line(text: object) -> None:
    with pytest.raises(UserInputError, match="the prompt must be a text, got "):
        CODECS["metaspace"].encode(text)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("prompt", "system", "message"),
    [("\udcff", None, "the prompt is not UTF-8 text"), ("hello", "\udcff", "the system text is not UTF-8 text")],
)
def test_a_chat_that_is_not_utf_8_is_refused_in_one_line(prompt: str, system: str | None, message: str) -> None:
    with pytest.raises(UserInputError, match=message):
        TextCodec(byte_level_tokenizer(TEMPLATE)).encode_chat(prompt, system)
