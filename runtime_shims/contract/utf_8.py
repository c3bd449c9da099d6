"""Text of a command line: bytes that are not UTF-8 arrive in Python as lone surrogates."""

from __future__ import annotations

from runtime_shims.contract.errors import UserInputError


def require_utf_8(text: str, what: str) -> str:
    """`text`, checked. Raises UserInputError that names the first byte which is not UTF-8."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        byte = len(text[: error.start].encode("utf-8"))
        raise UserInputError(f"{what} is not UTF-8 text (byte {byte}); give it as UTF-8") from None
    return text
