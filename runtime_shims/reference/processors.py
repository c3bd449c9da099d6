"""What the user's settings do to a row's logits before a token is chosen, in transformers' order.

    1. repetition penalty   float32: logits below 0 times the penalty, others divided by it
    2. no repeated n-gram   -inf
    3. no early end         -inf for the end-of-sequence tokens
    4. the token rules      suppressed, begin-suppressed and forced tokens, see `token_rules`

All of it looks at `history`: the prompt and everything emitted, which inside a block of drafts is the drafts that were
accepted before the position in question. History is read whole, so the cost of a token grows with it; a runtime that
wants better keeps the set of seen tokens and the n-grams per row.

Shape legend: V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from runtime_shims.contract.manifest import TokenRules
from runtime_shims.reference.sampling_settings import SamplingSettings
from runtime_shims.reference.token_rules import NoTokenAllowed, suppressed_tokens

Logits = NDArray[np.float32]
"""Logits float32 [V]."""

FORBIDDEN = "every token is forbidden; loosen --no-repeat-ngram, --min-new-tokens or the model's token rules"
OVERFLOWN = "a --repetition-penalty nearer to 1 keeps logits finite"


def processed_logits(
    logits_V: Tensor, history: Sequence[int], prompt_length: int, settings: SamplingSettings, rules: TokenRules
) -> Logits:
    """A copy of the logits after `history` with the settings and the rules applied; no token is forced there.

    Raises NoTokenAllowed when the logits hold NaN or +inf, or when every token is forbidden.
    """
    position = len(history)
    raw_V = logits_V.numpy()
    _check_best(position, float(raw_V.max()), None)
    processed_V = raw_V.copy()
    if settings.repetition_penalty != 1.0:
        penalize_repetition(processed_V, history, settings.repetition_penalty)
    if settings.no_repeat_ngram:
        processed_V[repeating_tokens(history, settings.no_repeat_ngram)] = -math.inf
    if position - prompt_length < settings.min_new_tokens:
        processed_V[list(rules.eos)] = -math.inf
    processed_V[list(suppressed_tokens(rules, position, prompt_length))] = -math.inf
    best = float(processed_V.max())
    _check_best(position, best, FORBIDDEN if best == -math.inf else OVERFLOWN)
    return processed_V


def penalize_repetition(logits_V: Logits, history: Sequence[int], penalty: float) -> None:
    """Make every token of `history` less likely, once however often it stands there. Changes `logits_V`."""
    seen = np.unique(np.asarray(history, dtype=np.int64))
    factor = np.float32(penalty)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # what comes of it is checked
        logits_V[seen] = np.where(logits_V[seen] < 0, logits_V[seen] * factor, logits_V[seen] / factor)


def repeating_tokens(history: Sequence[int], size: int) -> list[int]:
    """Tokens that would complete an n-gram of `size` tokens that `history` already has."""
    tail = tuple(history[len(history) - size + 1 :]) if len(history) >= size else None
    starts = range(len(history) - size + 1)
    return sorted({history[at + size - 1] for at in starts if tuple(history[at : at + size - 1]) == tail})


def _check_best(position: int, best: float, advice: str | None) -> None:
    if not math.isfinite(best):
        raise NoTokenAllowed(position, best) if advice is None else NoTokenAllowed(position, best, advice)
