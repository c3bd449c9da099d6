"""Random numbers that are a function of (seed, stream, index): the same in every language, in any order of rows.

There is no state to share: draw number `index` of a stream is computed from the three numbers alone, in 64-bit
integers that wrap. Row `row` of a run owns two streams, so what it draws depends on no other row and on no draft:

    2 * row        decisions of the target
    2 * row + 1    proposals of a draft model

`row` counts over the whole run: the second batch of a prompts file goes on where the first one ended.
"""

from __future__ import annotations

from runtime_shims.contract.integers import require_integer

MASK = (1 << 64) - 1
LARGEST_SEED = MASK
_SEED_FACTOR = 0x9E3779B97F4A7C15
_STREAM_FACTOR = 0xBF58476D1CE4E5B9
_INDEX_FACTOR = 0x94D049BB133111EB


def mix(value: int) -> int:
    """The finalizer of splitmix64: a bijection of the 64-bit integers; every input bit moves every output bit."""
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def uniform(seed: int, stream: int, index: int) -> float:
    """Draw number `index` (from 0) of a stream: one of the 2^53 multiples of 2^-53 in [0, 1)."""
    start = (seed * _SEED_FACTOR + (stream + 1) * _STREAM_FACTOR + (index + 1) * _INDEX_FACTOR) & MASK
    return (mix(mix(start)) >> 11) * 2.0**-53


class RandomStream:
    """One stream, read from its beginning. `drawn` is how many numbers were taken, and the index of the next."""

    def __init__(self, seed: int, stream: int) -> None:
        """Raises UserInputError unless both are integers, the seed of 64 bits without a sign."""
        self._seed = require_integer("the seed", seed, 0) & MASK
        self._stream = require_integer("the stream", stream, 0)
        self.drawn = 0

    def next(self) -> float:
        """The next draw, in [0, 1)."""
        value = uniform(self._seed, self._stream, self.drawn)
        self.drawn += 1
        return value


def target_stream(seed: int, row: int) -> RandomStream:
    """What decides row `row` of the run."""
    return RandomStream(seed, 2 * row)


def draft_stream(seed: int, row: int) -> RandomStream:
    """What a draft model proposes for row `row` of the run."""
    return RandomStream(seed, 2 * row + 1)
