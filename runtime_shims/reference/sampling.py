"""Choosing a row's next token: the best one, or a draw from a filtered distribution.

The order of operations is transformers': processors (`processors.py`), temperature, top-k, top-p, min-p. The arithmetic
is fixed to the bit, for a C++ runtime to repeat (docs/decisions/0011):

    kept       token ids whose logit is above -inf, in ascending order
    top-k      keep logits >= the k-th best of them, in float32: all that equal it are kept
    weight     exponential((float64(logit) - float64(best)) / temperature), see `exponential.py`
    top-p      in order of (logit descending, id ascending): the shortest prefix whose weights, added one by one, reach
               top_p times the sum of all kept weights, added one by one in ascending order of ids
    min-p      keep weights >= min_p; the best token's weight is 1
    mass       weight / sum of the kept weights, added one by one in ascending order of ids

A draw u takes the first kept id whose running sum of masses exceeds u times the whole sum.

Shape legend: V vocabulary, N kept tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from runtime_shims.contract.manifest import TokenRules
from runtime_shims.reference.exponential import exponential
from runtime_shims.reference.processors import Logits, processed_logits
from runtime_shims.reference.random_stream import RandomStream
from runtime_shims.reference.sampling_settings import SamplingSettings
from runtime_shims.reference.token_rules import forced_token, greedy_token


@dataclass(frozen=True)
class Distribution:
    """Token ids int64 [N], ascending, and their masses float64 [N]: probabilities, or any masses of a positive sum."""

    ids: NDArray[np.int64]
    masses: NDArray[np.float64]

    def mass(self, token: int) -> float:
        """The mass of `token`; 0 for one that was filtered away."""
        at = int(np.searchsorted(self.ids, token))
        return float(self.masses[at]) if at < len(self.ids) and self.ids[at] == token else 0.0

    def take(self, u: float) -> int:
        """The token that the draw `u` in [0, 1) falls on; never one of mass 0."""
        sums = np.cumsum(self.masses)
        at = int(np.searchsorted(sums, u * sums[-1], side="right"))
        return int(self.ids[min(at, len(self.ids) - 1)])  # a sum too small for all its bits may round up to itself


def certain(token: int) -> Distribution:
    """All mass on one token."""
    return Distribution(np.array([token], dtype=np.int64), np.ones(1))


def filtered_distribution(logits_V: Logits, settings: SamplingSettings) -> Distribution:
    """What is drawn from at a temperature above 0. The best logit is finite, see `processed_logits`."""
    ids = np.flatnonzero(logits_V > -np.inf)
    logits_N = logits_V[ids]
    if 0 < settings.top_k < len(ids):
        smallest = np.partition(logits_N, len(ids) - settings.top_k)[len(ids) - settings.top_k]
        ids, logits_N = ids[logits_N >= smallest], logits_N[logits_N >= smallest]
    wide_N = logits_N.astype(np.float64)
    with np.errstate(over="ignore"):  # a tiny temperature leaves the best token alone
        weights = exponential((wide_N - wide_N.max()) / settings.temperature)
    kept = weights >= settings.min_p
    if settings.top_p < 1.0:
        order = np.argsort(-logits_N, kind="stable")
        short = np.cumsum(weights[order]) < settings.top_p * np.cumsum(weights)[-1]
        kept[order[np.count_nonzero(short) + 1 :]] = False
    weights = weights[kept]
    return Distribution(ids[kept], weights / np.cumsum(weights)[-1])


@dataclass(frozen=True)
class TokenChooser:
    """How one row's tokens are chosen: by settings and rules, with draws of the row's own stream.

    Greedy choices draw nothing. At a temperature above 0 every choice takes exactly one draw, forced tokens too.
    """

    settings: SamplingSettings
    rules: TokenRules
    prompt_length: int
    stream: RandomStream

    def choose(self, logits_V: Tensor, history: Sequence[int]) -> int:
        """The token after `history`, whose last token has the logits `logits_V`. Raises NoTokenAllowed."""
        if self.settings.samples:
            return self.distribution(logits_V, history).take(self.stream.next())
        forced = forced_token(self.rules, len(history))
        if forced is not None or not self.settings.processes:
            return greedy_token(logits_V, self.rules, len(history), self.prompt_length)
        return int(np.argmax(self._processed(logits_V, history)))

    def distribution(self, logits_V: Tensor, history: Sequence[int]) -> Distribution:
        """What the token after `history` is drawn from. Raises NoTokenAllowed."""
        forced = forced_token(self.rules, len(history))
        if forced is not None:
            return certain(forced)
        return filtered_distribution(self._processed(logits_V, history), self.settings)

    def _processed(self, logits_V: Tensor, history: Sequence[int]) -> Logits:
        return processed_logits(logits_V, history, self.prompt_length, self.settings, self.rules)
