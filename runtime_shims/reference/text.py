"""Text to token ids and back, with the tokenizer that the bundle carries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from runtime_shims.contract.bundle_reader import Bundle
from runtime_shims.contract.errors import UserInputError
from runtime_shims.contract.integers import pictured
from runtime_shims.contract.out_of_memory import is_out_of_memory
from runtime_shims.contract.pieces import Pieces, read_pieces
from runtime_shims.contract.utf_8 import require_utf_8
from runtime_shims.reference.text_stream import CodecStream, PieceStream, TextStream

TOKENIZER_DIRECTORY = "tokenizer"


class TextDecoder(Protocol):
    """Token ids to text, all at once or as they come."""

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of `tokens` without special tokens."""
        ...

    def stream(self) -> TextStream:
        """A fresh incremental decoder; one per row."""
        ...


class PieceDecoder:
    """The text of tokens by the bundle's table of pieces: no tokenizer is loaded, which takes seconds."""

    def __init__(self, pieces: Pieces) -> None:
        self._pieces = pieces

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of `tokens` without special tokens."""
        return self._pieces.decode(tokens).decode("utf-8", errors="replace")

    def stream(self) -> TextStream:
        """A fresh incremental decoder; one per row."""
        return PieceStream(self._pieces)


class TextCodec:
    """A bundle's tokenizer. Never looks anything up outside the bundle."""

    def __init__(self, tokenizer: Any) -> None:
        """`tokenizer` is a transformers tokenizer; see `load_text_codec`."""
        self._tokenizer = tokenizer

    def encode(self, text: str) -> list[int]:
        """Token ids of `text` with the special tokens that the model expects around it.

        Raises UserInputError for a text that cannot be written as UTF-8.
        """
        return list(self._tokenizer(require_text(text, "the prompt")).input_ids)

    def encode_chat(self, prompt: str, system: str | None) -> list[int]:
        """Token ids of a one-turn conversation in the model's chat template, ready for the answer.

        Raises UserInputError when the tokenizer has no template, the template refuses a system text, or a
        text cannot be written as UTF-8.
        """
        require_text(prompt, "the prompt")
        require_text("" if system is None else system, "the system text")
        if not getattr(self._tokenizer, "chat_template", None):
            raise UserInputError("the bundle's tokenizer has no chat template; run without --chat")
        messages = [{"role": "system", "content": system}] if system is not None else []
        messages.append({"role": "user", "content": prompt})
        try:
            text = self._tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        except Exception as error:  # templates raise whatever their author chose
            raise UserInputError(f"the chat template refused the conversation: {error}") from error
        return list(self._tokenizer(text, add_special_tokens=False).input_ids)

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of `tokens` without special tokens."""
        return str(
            self._tokenizer.decode(list(tokens), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        )

    def stream(self) -> TextStream:
        """A fresh incremental decoder; one per row."""
        return CodecStream(self)


def require_text(text: str, what: str) -> str:
    """`text`, checked. Raises UserInputError for bytes of a command line that are not UTF-8."""
    if not isinstance(text, str):
        raise UserInputError(f"{what} must be a text, got {pictured(text)}")
    return require_utf_8(text, what)


def has_tokenizer(bundle: Bundle) -> bool:
    """Whether the bundle lists tokenizer files."""
    return any(entry.role == "tokenizer" for entry in bundle.manifest.files)


def unreadable(what: str, error: Exception) -> Exception:
    """One line about a part of the bundle that transformers cannot read; `error` itself when memory ran out."""
    if is_out_of_memory(error):
        return error
    reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
    return UserInputError(f"the bundle's {what} cannot be loaded ({reason}); export the model again")


def load_text_decoder(bundle: Bundle) -> TextDecoder | None:
    """What turns the bundle's tokens into text: its pieces, else its tokenizer; None when it carries neither."""
    pieces = read_pieces(bundle)
    if pieces is not None:
        return PieceDecoder(pieces)
    return load_text_codec(bundle) if has_tokenizer(bundle) else None


def load_text_codec(bundle: Bundle) -> TextCodec:
    """The tokenizer in the bundle. Raises UserInputError when it carries none, or one that is unreadable."""
    directory = bundle.root / TOKENIZER_DIRECTORY
    if not has_tokenizer(bundle):
        raise UserInputError("the bundle carries no tokenizer; give token ids with --ids")
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(str(directory), local_files_only=True)
    except Exception as error:  # a settings file of the wrong form ends in whatever transformers meets first
        raise unreadable("tokenizer", error) from error
    return TextCodec(tokenizer)
