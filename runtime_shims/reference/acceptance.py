"""Whether a draft token stands, and what stands in its place. Pure functions of distributions and draws.

Let p be the target's distribution at the draft's position, q the one that the draft x was drawn from.

    greedy           x stands if it is the target's choice; that choice replaces it otherwise. No draws.
    sampled, no q    the draft is certain (prompt lookup), q is all on x. One draw u: y = p.take(u). x stands if it is
                     y, and y replaces it otherwise. That is the rule below for such a q - x stands with probability
                     p(x), a replacement is distributed as p without x - made with the draw that plain decoding would
                     make, so certain drafts change no token.
    sampled, with q  draw u: x stands if u * q(x) < p(x) or 0 < q(x) <= p(x): with probability min(1, p(x)/q(x)).
                     Otherwise a second draw v: y = residual(p, q).take(v) replaces it.

The token after a block that stands whole, and every token of plain decoding, is chosen by one draw. What is emitted is
distributed as p whatever q is (Leviathan et al., arXiv:2211.17192; Chen et al., arXiv:2302.01318).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from runtime_shims.reference.sampling import Distribution, TokenChooser


@dataclass(frozen=True)
class Verdict:
    """The token that is emitted at a position, and whether it is the draft that stood there."""

    token: int
    accepted: bool


def judge(
    chooser: TokenChooser, logits_V: Tensor, history: Sequence[int], draft: int, proposal: Distribution | None
) -> Verdict:
    """Judge the token `draft` that follows `history`; `proposal` is what it was drawn from, None if it is certain.

    Takes the draws described above from the chooser's stream. Raises NoTokenAllowed.
    """
    if proposal is None or not chooser.settings.samples:
        token = chooser.choose(logits_V, history)
        return Verdict(token, token == draft)
    target = chooser.distribution(logits_V, history)
    if stands(target, proposal, draft, chooser.stream.next()):
        return Verdict(draft, True)
    return Verdict(residual(target, proposal).take(chooser.stream.next()), False)


def stands(target: Distribution, proposal: Distribution, draft: int, u: float) -> bool:
    """Whether `draft` is accepted by the draw `u`: with probability min(1, p/q)."""
    p, q = target.mass(draft), proposal.mass(draft)
    return u * q < p or 0.0 < q <= p


def residual(target: Distribution, proposal: Distribution) -> Distribution:
    """What a rejected draft is replaced from: max(p - q, 0) per token, not normalised; p itself where that is all 0.

    It is all 0 only if p and q are equal up to rounding, and then a draft is rejected by rounding only.
    """
    at = np.searchsorted(proposal.ids, target.ids)
    at_known = np.minimum(at, len(proposal.ids) - 1)
    proposed = np.where(proposal.ids[at_known] == target.ids, proposal.masses[at_known], 0.0)
    rest = np.maximum(target.masses - proposed, 0.0)
    return Distribution(target.ids, rest) if rest.any() else target
