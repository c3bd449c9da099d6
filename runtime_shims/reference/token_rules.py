"""The model's token rules, and the greedy choice under them. Pure functions.

The rules are those of transformers' logits processors: suppressed tokens never appear, begin-suppressed
tokens do not appear at the first position that is chosen freely, forced tokens stand at their
positions. A position is the index in the decoder sequence, start tokens included.

A choice that the user's settings shape is made in `sampling.py`, from what `processors.py` leaves of the logits.

Shape legend: V vocabulary.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from runtime_shims.contract.errors import FixedCapacityError
from runtime_shims.contract.manifest import TokenRules


class NoTokenAllowed(FixedCapacityError):
    """No token can be chosen at `position`: `best`, the highest allowed logit, is NaN or infinite.

    It is -inf where every token is suppressed.
    """

    def __init__(self, position: int, best: float, advice: str = "run `run-model verify` on the bundle") -> None:
        self.position = position
        self.best = best
        super().__init__(f"no token can be chosen at position {position}: the best logit is {best}; {advice}")


def forced_token(rules: TokenRules, position: int) -> int | None:
    """The token that must stand at `position`, if the model forces one."""
    for forced in rules.forced:
        if forced.position == position:
            return forced.token
    return None


def begin_position(rules: TokenRules, prompt_length: int) -> int:
    """First position after the prompt that is chosen freely: where begin-suppression applies."""
    position = prompt_length
    while forced_token(rules, position) is not None:
        position += 1
    return position


def suppressed_tokens(rules: TokenRules, position: int, prompt_length: int) -> tuple[int, ...]:
    """Tokens that may not be chosen at `position` of a row whose prompt has `prompt_length` tokens."""
    if rules.begin_suppress and position == begin_position(rules, prompt_length):
        return rules.suppress + rules.begin_suppress
    return rules.suppress


def allowed_logits(logits_V: Tensor, rules: TokenRules, position: int, prompt_length: int) -> Tensor:
    """A copy of `logits_V` with the rules applied: -inf wherever the token may not be chosen.

    A forced token wins over a suppression of the same token.
    """
    forced = forced_token(rules, position)
    if forced is not None:
        allowed_V = torch.full_like(logits_V, -math.inf)
        allowed_V[forced] = 0.0
        return allowed_V
    allowed_V = logits_V.clone()
    suppressed = suppressed_tokens(rules, position, prompt_length)
    allowed_V[torch.tensor(suppressed, dtype=torch.int64)] = -math.inf
    return allowed_V


def greedy_token(logits_V: Tensor, rules: TokenRules, position: int, prompt_length: int) -> int:
    """The allowed token of highest logit, the lowest id among equals.

    Raises NoTokenAllowed when the logits hold NaN or +inf, or when every token is suppressed.
    """
    forced = forced_token(rules, position)
    if forced is not None:
        return forced
    token = int(torch.argmax(logits_V))
    best = float(logits_V[token])
    if math.isfinite(best) and token in suppressed_tokens(rules, position, prompt_length):
        allowed_V = allowed_logits(logits_V, rules, position, prompt_length)
        token = int(torch.argmax(allowed_V))
        best = float(allowed_V[token])
    if not math.isfinite(best):
        raise NoTokenAllowed(position, best)
    return token
