"""Speculative decoding written a second time, as plainly as can be: lists, dictionaries, whole texts searched anew.

It shares nothing with the product, and make_speculation_trace.py writes down what it does. The rules are those that
docs/decisions/0011 states.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, field
from typing import Any

MASK = 2**64 - 1
VOCAB = 16
TEXTS = ["", "", *"cdefghijklmn", "ba", "ab"]
PAIR_SEED, STATE_SEED, DRAFT_SEED, SOURCE_END = 0x5EED0001, 0x5EED0002, 0x5EED0003, 0xFFFFFFFF
LN2_HIGH, LN2_LOW, LOG2_E = 6.93147180369123816490e-01, 1.90821492927058770002e-10, 1.4426950408889634


def mix(z: int) -> int:
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def uniform(seed: int, stream: int, index: int) -> float:
    z = seed * 0x9E3779B97F4A7C15 + (stream + 1) * 0xBF58476D1CE4E5B9 + (index + 1) * 0x94D049BB133111EB
    return (mix(mix(z & MASK)) >> 11) / 2**53


def exponential(x: float) -> float:
    if x < -708.0:
        return 0.0
    k = round(x * LOG2_E)
    r = (x - k * LN2_HIGH) - k * LN2_LOW
    p = 1.0 / math.factorial(13)
    for power in range(12, -1, -1):
        p = 1.0 / math.factorial(power) + r * p
    return math.ldexp(p, k)


def float32(value: float) -> float:
    return struct.unpack("<f", struct.pack("<f", value))[0]


def level(h: int, token: int) -> int:
    """An integer in -2^19 .. 2^19 - 1."""
    return (mix((h + (token + 1) * 0x9E3779B97F4A7C15) & MASK) >> 44) - 2**19


def toy_logits(source: list[int], tokens: list[int], draft: bool) -> list[float]:
    """Logits of the toy model, exact in float32: mostly of the last two tokens, a little of everything before them.

    The draft's are the target's, disturbed.
    """
    last, before = tokens[-1], tokens[-2] if len(tokens) > 1 else -1
    pair = mix(PAIR_SEED ^ ((before + 1) * 1000 + last + 1))
    state = mix(STATE_SEED)
    for token in source:
        state = mix(state ^ (token + 1))
    state = mix(state ^ SOURCE_END) if source else state
    for token in tokens:
        state = mix(state ^ (token + 1))
    units = [level(pair, v) + (level(state, v) >> 2) for v in range(VOCAB)]
    if draft:
        units = [unit + (level(mix(state ^ DRAFT_SEED), v) >> 2) for v, unit in enumerate(units)]
    return [unit / 2**17 for unit in units]


@dataclass
class PlainRow:
    """A row; `held` and `draft_held` are the tokens that the two caches hold."""

    number: int
    source: list[int]
    prompt: list[int]
    budget: int | None
    context: list[int] = field(default_factory=list)
    held: list[int] = field(default_factory=list)
    draft_held: list[int] = field(default_factory=list)
    high_water: int = 0
    draft_high_water: int = 0
    target_draws: int = 0
    draft_draws: int = 0
    stop_reason: str | None = None


class PlainDecoder:
    """One case of the trace, run by the book."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.case, self.settings = case, case["settings"]

    def draw(self, row: PlainRow, draft: bool) -> float:
        index = row.draft_draws if draft else row.target_draws
        row.draft_draws, row.target_draws = row.draft_draws + draft, row.target_draws + (not draft)
        return uniform(self.settings["seed"], 2 * row.number + draft, index)

    def processed(self, row: PlainRow, history: list[int], draft: bool) -> list[float]:
        s, rules = self.settings, self.case["rules"]
        logits = toy_logits(row.source, history, draft)
        penalty = float32(s["repetition_penalty"])
        for token in set(history):
            logits[token] = float32(logits[token] * penalty if logits[token] < 0 else logits[token] / penalty)
        n, forbidden = s["no_repeat_ngram"], set(rules["suppress"])
        grams = [history[i : i + n] for i in range(len(history) - n + 1)] if n else []
        forbidden |= {gram[-1] for gram in grams if gram[:-1] == history[len(history) - n + 1 :]}
        if len(history) - len(row.prompt) < s["min_new_tokens"]:
            forbidden |= set(self.case["eos"])
        free = len(row.prompt)
        while str(free) in rules["forced"]:
            free += 1
        if len(history) == free:
            forbidden |= set(rules["begin_suppress"])
        return [-math.inf if token in forbidden else logit for token, logit in enumerate(logits)]

    def distribution(self, row: PlainRow, history: list[int], draft: bool) -> dict[int, float]:
        """Probabilities by token, ascending; one token at temperature 0."""
        if str(len(history)) in self.case["rules"]["forced"]:
            return {self.case["rules"]["forced"][str(len(history))]: 1.0}
        return filtered(self.processed(row, history, draft), self.settings)

    def choose(self, row: PlainRow, p: dict[int, float], draft: bool) -> int:
        return take(p, self.draw(row, draft)) if self.settings["temperature"] else next(iter(p))

    def proposed(self, row: PlainRow, count: int) -> tuple[list[int], list[dict[int, float]] | None]:
        if self.case["proposer"] == "prompt-lookup":
            return lookup(row.source, row.context, count), None
        if self.case["proposer"] == "off" or count == 0:
            return [], None
        drafts: list[int] = []
        distributions = []
        for _ in range(count):
            q = self.distribution(row, row.context + drafts, True)
            drafts.append(self.choose(row, q, True))
            distributions.append(q)
        row.draft_held = row.context + drafts[:-1]
        row.draft_high_water = max(row.draft_high_water, len(row.draft_held))
        return drafts, distributions if self.settings["temperature"] else None

    def block(self, row: PlainRow, drafts: list[int], distributions: list[dict[int, float]] | None) -> tuple[int, int]:
        """Emit until a draft falls, the row ends, or all stand: (accepted, emitted)."""
        for offset in range(len(drafts) + 1):
            p = self.distribution(row, row.context, False)
            draft = drafts[offset] if offset < len(drafts) else None
            if draft is None or distributions is None:
                token = self.choose(row, p, False)
                stands = token == draft
            else:
                q = distributions[offset]
                stands = self.draw(row, False) * q[draft] < p.get(draft, 0.0) or q[draft] <= p.get(draft, 0.0)
                rest = {token: max(mass - q.get(token, 0.0), 0.0) for token, mass in p.items()}
                token = draft if stands else take(rest if any(rest.values()) else p, self.draw(row, False))
            self.emit(row, token)
            if row.stop_reason or not stands:
                return offset + stands, offset + 1
        raise AssertionError("a block ends with a token that is no draft")

    def emit(self, row: PlainRow, token: int) -> None:
        row.context.append(token)
        new = row.context[len(row.prompt) :]
        text = "".join(TEXTS[t] for t in new)
        if token in self.case["eos"]:
            row.stop_reason = "eos"
        elif any(stop in text for stop in self.case["stops"]):
            row.stop_reason = "stop_string"
        elif len(new) == row.budget:
            row.stop_reason = "max_new_tokens"
        elif len(row.context) > self.case["limits"]["max_dec"]:
            row.stop_reason = "capacity"

    def most(self, row: PlainRow, wanted: int) -> int:
        limits, context = self.case["limits"], len(row.context)
        bounds = [wanted, limits["max_draft"], limits["max_dec"] - context]
        if row.budget is not None:
            bounds.append(row.budget - (context - len(row.prompt)) - 1)
        if self.case["proposer"] == "draft":
            draft = self.case["draft_limits"]
            bounds += [draft["max_dec"] - context + 1, max(draft["prefill_chunk"], draft["max_draft"] + 1)]
        return max(0, min(bounds))

    def round(self, row: PlainRow, wanted: int) -> dict[str, Any]:
        drafts, accepted, emitted = [], 0, 0
        if row.stop_reason is None:
            drafts, distributions = self.proposed(row, self.most(row, wanted))
            row.held = row.context + drafts
            row.high_water = max(row.high_water, len(row.held))
            accepted, emitted = self.block(row, drafts, distributions)
            for held in (row.held, row.draft_held):
                while len(held) >= len(row.context) or held != row.context[: len(held)]:
                    held.pop()
        outcome = {"proposed": drafts, "accepted": accepted, "emitted": emitted, "length": len(row.held)}
        outcome |= {"high_water": row.high_water}
        if self.case["proposer"] == "draft":
            outcome |= {"draft_length": len(row.draft_held), "draft_high_water": row.draft_high_water}
        return outcome

    def run(self) -> tuple[list[PlainRow], list[list[dict[str, Any]]]]:
        case, rounds = self.case, []
        sources = case["sources"] or [[] for _ in case["prompts"]]
        given = zip(sources, case["prompts"], case["budgets"], strict=True)
        rows = [PlainRow(case["first_row"] + i, *values) for i, values in enumerate(given)]
        for row in rows:
            row.context, row.held, row.draft_held = list(row.prompt), list(row.prompt), list(row.prompt)
            row.high_water = row.draft_high_water = len(row.prompt)
            self.block(row, [], None)
        lengths = PlainDraftLength(case)
        while not all(row.stop_reason for row in rows):
            wanted = lengths.choose()
            rounds.append([self.round(row, wanted) for row in rows])
            for outcome in rounds[-1]:
                lengths.observe(outcome)
        return rows, rounds


class PlainDraftLength:
    """A fixed number of drafts, or the best by the speed model."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.fixed, self.model, self.a, self.idle = case["num_drafts"], case["speed_model"], 0.9, 0

    def choose(self) -> int:
        if self.model is None:
            return self.fixed
        best, best_speed = 0, 1.05
        choices = [k for k in (1, 2, 4, 8) if k < len(self.model["verify"])]
        for k in choices:
            tokens = 1.0
            for _ in range(k):
                tokens = 1.0 + self.a * tokens
            speed = tokens / (self.model["verify"][k] + self.model["draft"] * k)
            if speed > best_speed:
                best, best_speed = k, speed
        probe = min(2, choices[-1])
        loss = self.model["verify"][probe] + self.model["draft"] * (probe + 1) - 1.0
        if best == 0 and self.idle == max(16, math.ceil(loss / 0.02)):
            best = probe
        self.idle = 0 if best else self.idle + 1
        return best

    def observe(self, outcome: dict[str, Any]) -> None:
        for position in range(min(outcome["emitted"], len(outcome["proposed"]))):
            self.a += ((1.0 if position < outcome["accepted"] else 0.0) - self.a) * 0.125


def filtered(logits: list[float], s: dict[str, Any]) -> dict[int, float]:
    best = max(logits)
    if s["temperature"] == 0:
        return {logits.index(best): 1.0}
    kept = [token for token, logit in enumerate(logits) if logit > -math.inf]
    if s["top_k"]:
        kept = [t for t in kept if sum(logits[other] > logits[t] for other in kept) < s["top_k"]]
    weights = {token: exponential((logits[token] - best) / s["temperature"]) for token in kept}
    if s["top_p"] < 1.0:
        needed, held, shortest = s["top_p"] * in_order(weights.values()), 0.0, []
        for token in sorted(kept, key=lambda t: (-logits[t], t)):
            if held >= needed:
                break
            shortest.append(token)
            held += weights[token]
        kept = sorted(shortest)
    weights = {token: weights[token] for token in kept if weights[token] >= s["min_p"]}
    total = in_order(weights.values())
    return {token: weight / total for token, weight in weights.items()}


def in_order(values: Any) -> float:
    """The sum, one by one: Python's `sum` of floats is more exact than that."""
    total = 0.0
    for value in values:
        total += value
    return total


def take(masses: dict[int, float], u: float) -> int:
    threshold, held = u * in_order(masses.values()), 0.0
    for token, mass in masses.items():
        held += mass
        if held > threshold:
            return token
    raise AssertionError("a draw below 1 falls on a token")


def lookup(source: list[int], context: list[int], count: int) -> list[int]:
    for n in (3, 2, 1):
        tail = context[len(context) - n :]
        for piece in (context, source):
            for start in range(len(piece) - n - 1, -1, -1):
                if len(tail) == n and piece[start : start + n] == tail:
                    return piece[start + n : start + n + count]
    return []
