"""Writes speculation_trace.json: requests to a toy model and all that decoding does, for every runtime to replay.

It does not import the product: `plain_speculation.py` decodes by the book.

    python tests/golden/make_speculation_trace.py

The toy model has 16 tokens and is integer arithmetic (`toy_logits`), so that every language computes the same logits.
All hashes are 64-bit and wrap; `mix` is the finalizer of splitmix64:

    last, before   the newest token and the one before it, -1 if there is none
    pair           mix(pair_seed ^ ((before + 1) * 1000 + last + 1))
    state          mix(state_seed), then mix(state ^ (token + 1)) for every source token, mix(state ^ source_end) if
                   there is a source, and mix(state ^ (token + 1)) for every decoder token
    level(h, v)    (mix(h + (v + 1) * 0x9E3779B97F4A7C15) >> 44) - 2^19
    units(v)       level(pair, v) + (level(state, v) >> 2); the draft model adds level(mix(state ^ draft_seed), v) >> 2
    logit(v)       units(v) * 2^-17, exact in float32; >> of a negative number rounds down

The file: `toy` (vocabulary, seeds, the text of each token), `uniforms` (seed, stream, index, draw * 2^53),
`exponentials` (x and exp(x) as hexadecimal floats), `distributions` (logits and settings; ids and masses as hexadecimal
floats), and `cases`. A case has

    kind, limits, draft_limits, eos, rules (forced: position to token), settings, stops, proposer, first_row,
    num_drafts or speed_model (verify[K] and draft: see `adaptive.py`), sources, prompts, budgets
    rows        per row: its new tokens, why it stopped, and the draws it took of its two streams
    rounds      per round and row: drafts proposed, drafts accepted, tokens emitted, and then the length and high-water
                mark of the target's caches and of the draft's
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from plain_speculation import (
    DRAFT_SEED,
    PAIR_SEED,
    SOURCE_END,
    STATE_SEED,
    TEXTS,
    VOCAB,
    PlainDecoder,
    exponential,
    filtered,
    toy_logits,
    uniform,
)

TRACE_PATH = Path(__file__).with_name("speculation_trace.json")
GREEDY = {
    "temperature": 0.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "repetition_penalty": 1.0, "no_repeat_ngram": 0,
    "min_new_tokens": 0, "seed": 0,
}  # fmt: skip
SAMPLED = {**GREEDY, "temperature": 0.9, "seed": 2024}
FILTERED = {**GREEDY, "temperature": 1.3, "top_k": 6, "top_p": 0.9, "min_p": 0.04, "seed": 2**64 - 5}
PENALIZED = {**GREEDY, "repetition_penalty": 1.25, "no_repeat_ngram": 3, "min_new_tokens": 9}
ALL_AT_ONCE = {**FILTERED, "repetition_penalty": 1.1, "no_repeat_ngram": 4, "min_new_tokens": 6, "seed": 77}
LIMITS = {"max_batch": 4, "max_enc": 12, "max_dec": 40, "max_draft": 4, "prefill_chunk": 3, "window": 6}
SMALL = {**LIMITS, "max_dec": 20}
WIDE = {**LIMITS, "max_dec": 64, "max_draft": 8, "prefill_chunk": 9}
NO_RULES: dict[str, Any] = {"forced": {}, "suppress": [], "begin_suppress": []}
RULES = {"forced": {"1": 9, "30": 4}, "suppress": [2, 15], "begin_suppress": [5, 1, 11]}
PROMPTS = [[3, 9, 4, 3, 9], [7], [10, 11, 12, 13, 10, 11, 12]]
SOURCES = [[5, 6, 7, 8, 5, 6], [9], [12, 3, 12, 4, 12, 5, 12, 6]]
START = [[0]] * 3


def case(name: str, settings: dict[str, Any], proposer: str, rows: int, **changed: Any) -> dict[str, Any]:
    """A case with what is usual for everything not given, decoded."""
    usual = {
        "kind": "decoder_only", "limits": LIMITS, "draft_limits": LIMITS if proposer == "draft" else None, "eos": [1],
        "rules": NO_RULES, "stops": [], "first_row": 0, "num_drafts": 0 if proposer == "off" else 4,
        "speed_model": None, "sources": None, "prompts": PROMPTS[:rows], "budgets": [24, None, 17][:rows],
    }  # fmt: skip
    made = {"name": name, "settings": settings, "proposer": proposer, **usual, **changed}
    done, rounds = PlainDecoder(made).run()
    made["rows"] = [
        {
            "tokens": row.context[len(row.prompt) :],
            "stop_reason": row.stop_reason,
            "target_draws": row.target_draws,
            "draft_draws": row.draft_draws,
        }
        for row in done
    ]
    return {**made, "rounds": rounds}


def make_cases() -> list[dict[str, Any]]:
    """Greedy and sampled, every proposer, one row and three; then what is peculiar."""
    proposers = ("off", "prompt-lookup", "draft")
    cases = [
        case(f"{name}, {proposer}, rows {rows}", settings, proposer, rows)
        for name, settings in (("greedy", GREEDY), ("sampled", SAMPLED), ("filtered", FILTERED))
        for proposer in proposers
        for rows in (1, 3)
    ]
    cases += [
        case(f"{name}, {proposer}", settings, proposer, 3, limits=WIDE, num_drafts=drafts)
        for name, settings in (("penalties", PENALIZED), ("everything", ALL_AT_ONCE))
        for proposer, drafts in (("off", 0), ("prompt-lookup", 8), ("draft", 3))
    ]
    stops = ["gab", "ml", "kd", "jij"]
    cases += [
        case(f"stop strings, {name}, {proposer}", settings, proposer, 3, stops=stops, eos=[], limits=WIDE)
        for name, settings in (("greedy", GREEDY), ("sampled", SAMPLED))
        for proposer in proposers
    ]
    encoder = {"kind": "text_seq2seq", "sources": SOURCES, "prompts": START, "rules": RULES, "eos": [1, 14]}
    cases += [
        case(f"encoder and token rules, {name}, {proposer}", settings, proposer, 3, **encoder)
        for name, settings in (("greedy", GREEDY), ("sampled", {**SAMPLED, "min_new_tokens": 5}))
        for proposer in proposers
    ]
    model = {"verify": [1.0, 1.1, 1.2, 1.4, 1.5], "draft": 0.0}
    dear = {"verify": [1.0, 1.25, 1.5, 1.75, 2.0], "draft": 0.25}
    dearest = {"verify": [1.0, 2.5, 3.0, 3.5, 4.0], "draft": 1.0}
    full = {"eos": [], "budgets": [None] * 3}
    cases += [
        case("capacity, greedy, draft", GREEDY, "draft", 3, limits=SMALL, draft_limits=SMALL, **full),
        case("capacity, sampled, prompt-lookup", SAMPLED, "prompt-lookup", 3, limits=SMALL, **full),
        case("a draft of smaller capacity", SAMPLED, "draft", 3, draft_limits={**SMALL, "max_draft": 1}, **full),
        case("a second batch", SAMPLED, "draft", 3, first_row=5),
        case("adaptive, prompt-lookup", SAMPLED, "prompt-lookup", 3, speed_model=model, limits=LIMITS, **full),
        case("adaptive, a dear draft", GREEDY, "draft", 3, speed_model=dear, limits=WIDE, **full),
        case("adaptive, a draft that never pays", SAMPLED, "draft", 3, speed_model=dearest, limits=WIDE, **full),
    ]
    return cases


def make_trace() -> dict[str, Any]:
    """Everything in the file."""
    draws = [(seed, stream, index) for seed in (0, 1, 2**64 - 1) for stream in (0, 1, 2, 7) for index in (0, 1, 1000)]
    points = [-i * 0.37 for i in range(40)] + [-1e-9, -100.0, -700.5, -708.0, -708.5, -1e300]
    shapes = [SAMPLED, FILTERED, {**SAMPLED, "top_k": 1}, {**SAMPLED, "top_p": 0.5}, {**SAMPLED, "min_p": 0.5}]
    logits = [toy_logits([], [token, 3], False) for token in range(3)]
    return {
        "toy": {
            "vocab": VOCAB, "texts": TEXTS, "pair_seed": PAIR_SEED, "state_seed": STATE_SEED, "draft_seed": DRAFT_SEED,
            "source_end": SOURCE_END,
        },
        "uniforms": [[*draw, int(uniform(*draw) * 2**53)] for draw in draws],
        "exponentials": [[x.hex(), exponential(x).hex()] for x in points],
        "distributions": [
            {"logits": values, "settings": settings, "ids": list(kept), "masses": [p.hex() for p in kept.values()]}
            for values in logits
            for settings in shapes
            for kept in [filtered(values, settings)]
        ],
        "cases": make_cases(),
    }  # fmt: skip


def trace_text() -> str:
    """The JSON text: a line per entry, and per round of a case."""
    trace = make_trace()
    parts = [f'"toy": {json.dumps(trace["toy"])}']
    for name in ("uniforms", "exponentials", "distributions"):
        parts.append(f'"{name}": [\n' + ",\n".join(f"  {json.dumps(entry)}" for entry in trace[name]) + "\n]")
    cases = []
    for made in trace["cases"]:
        rounds = ",\n".join(f"    {json.dumps(entry)}" for entry in made.pop("rounds"))
        cases.append(f'  {json.dumps(made)[:-1]}, "rounds": [\n{rounds}\n  ]}}')
    return "{\n" + ",\n".join(parts) + ',\n"cases": [\n' + ",\n".join(cases) + "\n]\n}\n"


if __name__ == "__main__":
    TRACE_PATH.write_text(trace_text(), encoding="utf-8")
