"""A row of results: one rival on one workload, with the rates that follow from its times."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from tests.benchmarks.harness.rivals import Rival


@dataclass(frozen=True)
class Row:
    """Medians over the rounds, in seconds and bytes; `note` says why a rival has none.

    agreement    share of greedy choices equal to the reference's; None where answers are compared exactly
    first_token  0 seconds, like `decode`, when the rival tells only the total
    """

    rival: str
    variant: str
    workload: str
    note: str | None
    agreement: float | None = None
    rows: int = 0
    tokens: int = 0
    first_token_seconds: float = 0.0
    decode_seconds: float = 0.0
    total_seconds: float = 0.0
    fastest_seconds: float = 0.0
    slowest_seconds: float = 0.0
    load_seconds: float = 0.0
    weights_bytes: int = 0
    cache_element_bytes: int = 4
    packages: dict[str, str] = field(default_factory=dict)
    peak_rss_bytes: int = 0

    @staticmethod
    def absent(rival: Rival, workload: str, note: str) -> Row:
        """A rival that did not take part."""
        return Row(rival.name, rival.variant, workload, note)

    @property
    def label(self) -> str:
        return f"{self.rival} {self.variant}"

    @property
    def decode_tokens_per_second(self) -> float | None:
        """Tokens after each row's first, per second of decoding."""
        told = self.decode_seconds > 0 and self.tokens > self.rows
        return (self.tokens - self.rows) / self.decode_seconds if told else None

    @property
    def tokens_per_second(self) -> float | None:
        """All new tokens per second of the whole answer."""
        return self.tokens / self.total_seconds if self.total_seconds > 0 else None

    @property
    def spread(self) -> float:
        """Slowest over fastest answer: far above 1, the machine was not idle."""
        return self.slowest_seconds / self.fastest_seconds if self.fastest_seconds > 0 else 1.0

    def read_gb_per_second(self, cache_elements: float) -> float | None:
        """Weights and live cache elements (at the mean length, per row) read by the steps, in 10^9 bytes per second."""
        if not self.weights_bytes or self.decode_tokens_per_second is None:
            return None
        steps = self.tokens // self.rows - 1
        per_step = self.weights_bytes + self.rows * cache_elements * self.cache_element_bytes
        return steps * per_step / self.decode_seconds / 1e9

    def as_dict(self) -> dict[str, Any]:
        """For JSON: fields and the rates that follow."""
        return asdict(self) | {
            "decode_tokens_per_second": self.decode_tokens_per_second,
            "tokens_per_second": self.tokens_per_second,
        }
