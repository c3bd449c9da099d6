"""Read `.gguf` files three times as fast as the stock reader does.

transformers parses the whole file, vocabulary included, for each of config, weights and tokenizer, through
a `numpy.memmap` whose every slice runs Python code: 19 s a time for 262,144 words, against 6 s with a plain
view of the same mapped memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def quick_reader() -> type[Any]:
    """`gguf.GGUFReader` over a plain view of the mapped file; it reads the same values."""
    import gguf
    import numpy as np

    stock: Any = gguf.GGUFReader

    class QuickReader(stock):  # type: ignore[misc]
        data: Any

        def _get(self, *args: Any, **kwargs: Any) -> Any:
            if isinstance(self.data, np.memmap):
                self.data = self.data.view(np.ndarray)
            return super()._get(*args, **kwargs)

    return QuickReader


@contextmanager
def quick_reading() -> Iterator[None]:
    """While this lasts, transformers finds the quick reader under the stock reader's name."""
    import gguf

    module: Any = gguf
    stock = module.GGUFReader
    module.GGUFReader = quick_reader()
    try:
        yield
    finally:
        module.GGUFReader = stock
