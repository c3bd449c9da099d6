"""How the next token is chosen: the settings, checked together. Standard library only."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from runtime_shims.contract.errors import UserInputError
from runtime_shims.contract.integers import as_integer, pictured
from runtime_shims.reference.random_stream import LARGEST_SEED

LARGEST_INTEGER = 2**63 - 1
"""Of whole numbers other than the seed: what every language holds."""


@dataclass(frozen=True)
class SamplingSettings:
    """The default is greedy decoding without any processor.

    temperature         0 takes the best token; above 0 draws, the flatter the higher
    top_k               draw from the k best tokens and those that equal the last of them; 0: from all
    top_p               draw from the fewest best tokens that hold this much of the mass; 1: from all
    min_p               draw from tokens of at least this fraction of the best one's probability; 0: from all
    repetition_penalty  logits of tokens that stand in the row are divided by it (multiplied below 0); 1: off
    no_repeat_ngram     no n tokens in a row may come twice; 0: off
    min_new_tokens      no end of sequence before this many new tokens
    max_new_tokens      new tokens per row; None: the bundle's setting, else the capacity
    seed                of all draws, 64 bits
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    no_repeat_ngram: int = 0
    min_new_tokens: int = 0
    max_new_tokens: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        """Raise UserInputError that names every wrong value and its option."""
        faults = list(self._faults())
        if faults:
            raise UserInputError("; ".join(faults))

    @property
    def samples(self) -> bool:
        """Whether tokens are drawn."""
        return self.temperature > 0.0

    @property
    def processes(self) -> bool:
        """Whether logits are changed before the token rules."""
        return self.repetition_penalty != 1.0 or self.no_repeat_ngram > 0 or self.min_new_tokens > 0

    def _faults(self) -> Iterator[str]:
        yield from _number_fault("--temperature", self.temperature, "0 (the best token) or more", low=0.0)
        yield from _number_fault("--top-p", self.top_p, "above 0, at most 1 (off)", above=0.0, high=1.0)
        yield from _number_fault("--min-p", self.min_p, "0 (off) to 1", low=0.0, high=1.0)
        yield from _number_fault("--repetition-penalty", self.repetition_penalty, "above 0; 1 is off", above=0.0)
        yield from _integer_fault("--top-k", self.top_k, 0)
        yield from _integer_fault("--no-repeat-ngram", self.no_repeat_ngram, 0)
        yield from _integer_fault("--min-new-tokens", self.min_new_tokens, 0)
        if self.max_new_tokens is not None:
            yield from _integer_fault("--max-new-tokens", self.max_new_tokens, 1)
        yield from _integer_fault("--seed", self.seed, 0, LARGEST_SEED)
        yield from self._contradictions()

    def _contradictions(self) -> Iterator[str]:
        filters = {"--top-k": self.top_k != 0, "--top-p": self.top_p != 1.0, "--min-p": self.min_p != 0.0}
        used = [name for name, is_used in filters.items() if is_used]
        if self.temperature == 0 and used:
            yield f"{', '.join(used)} without --temperature changes nothing: the best token is taken; give it too"
        most, least = as_integer(self.max_new_tokens), as_integer(self.min_new_tokens)
        if most is not None and least is not None and 1 <= most < least:
            yield f"--min-new-tokens {least} is more than --max-new-tokens {most}"


def _number_fault(
    name: str, value: object, allowed: str, low: float = -math.inf, above: float = -math.inf, high: float = math.inf
) -> Iterator[str]:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or not (low <= value <= high and value > above):  # type: ignore[operator]
        yield f"{name} must be a number, {allowed}, got {pictured(value)}"


def _integer_fault(name: str, value: object, least: int, most: int = LARGEST_INTEGER) -> Iterator[str]:
    number = as_integer(value)
    if number is None or not least <= number <= most:
        yield f"{name} must be a whole number in {least}..{most}, got {pictured(value)}"
