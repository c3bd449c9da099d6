"""The words that stand for tokens in the seeded checkpoint's tokenizer. Standard library only."""

from __future__ import annotations

SPECIAL = ("<pad>", "</s>", "<unk>")
"""T5's padding, end of sequence and unknown: tokens 0, 1 and 2."""


def word(token: int) -> str:
    """The text of a token."""
    return SPECIAL[token] if token < len(SPECIAL) else f"w{token}"
