"""Memory that a machine does not have, said in one line whoever noticed: Python, PyTorch's allocator or the system."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from runtime_shims.contract.errors import OutOfMemory

# PyTorch's CPU allocator has no error class of its own; a C++ `bad_alloc` arrives as MemoryError.
_ALLOCATOR_TEXTS = ("can't allocate memory", "Cannot allocate memory", "Storage size calculation overflowed")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether `error` says that memory could not be had."""
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    if isinstance(error, RuntimeError):
        return any(text in str(error) for text in _ALLOCATOR_TEXTS)
    return isinstance(error, MemoryError)


@contextmanager
def memory_for(what: str, advice: str) -> Iterator[None]:
    """Raise OutOfMemory when memory cannot be had within; `what` says what needs it, `advice` what to change."""
    try:
        yield
    except (MemoryError, RuntimeError, OSError) as error:
        if not is_out_of_memory(error):
            raise
        raise OutOfMemory(f"{what}, more memory than this machine can give; {advice}") from error
