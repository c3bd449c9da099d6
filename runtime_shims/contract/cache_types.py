"""In which types caches are kept, and what one position of one head takes in each."""

from __future__ import annotations

ELEMENT_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "int8": 1}
SCALE_BYTES = 4
"""In 8 bits a position's values are followed by their scale, a float32."""


def tail_elements(dtype: str) -> int:
    """Elements behind the values of a position."""
    return SCALE_BYTES if dtype == "int8" else 0


def position_bytes(dtype: str, head_size: int) -> int:
    """Bytes of one position of one head with `head_size` values."""
    return (head_size + tail_elements(dtype)) * ELEMENT_BYTES[dtype]
