"""Golden requests: what stock transformers answers, recorded before anything of the model is touched.

Each row runs alone and unpadded through the model with its own dynamic cache: no batch, no padding, no
capacity. That is the answer every spelling, backend and runtime must repeat.

Shape legend: T tokens, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, EncoderDecoderCache, PreTrainedModel

from exporter.bundle.tolerances import features_tolerance, loosest, rounds
from exporter.models.speech_features import FrontEnd
from exporter.spec.capacity_plan import CapacityPlan
from exporter.spec.faults import ExportFailed
from exporter.spec.hearing import stock_input
from runtime_shims.contract.manifest import TokenRules
from runtime_shims.reference.golden import Golden, GoldenRequest
from runtime_shims.reference.golden_features import GoldenFeatures, golden_waveform
from runtime_shims.reference.replay import golden_lengths, seeded_features, seeded_sounds
from runtime_shims.reference.token_rules import NoTokenAllowed, greedy_token

NEW_TOKENS = 8
TOP = 5
FEATURES = 256
FEATURE_ROWS = 2
SEED = 20
_ROW_LENGTHS = (7, 3, 5, 2)
_SOURCE_LENGTHS = (9, 4, 6, 2)

Step = Callable[[Tensor], Tensor]  # tokens int64 [1, T] -> logits of the last one, float32 [V]


def make_golden(model: PreTrainedModel, plan: CapacityPlan, rules: TokenRules) -> Golden:
    """One request of mixed lengths that fills up to four rows, answered by the eager model.

    Raises:
        ExportFailed: the model itself can choose no token, whatever is exported of it.
    """
    rows = min(plan.max_batch, len(_ROW_LENGTHS))
    source, heard = _sources(plan, rules, rows), _heard(model, plan, rows)
    prompts = _prompts(plan, rules, rows)
    budget = min(NEW_TOKENS, plan.recipe.max_dec - max(map(len, prompts)) + 1)
    allowed = loosest(plan.recipe)
    try:
        answers = [
            answer_row(
                model,
                prompts[row],
                None if source is None else source[row],
                None if heard is None else heard[row],
                rules,
                budget,
                lead=2 * allowed.relative if rounds(plan.recipe) else 0.0,
            )
            for row in range(rows)
        ]
    except NoTokenAllowed as error:
        raise ExportFailed(plan.recipe.model, [_why_no_token(error)]) from error
    request = GoldenRequest(
        source=source,
        features_seed=None if heard is None else SEED,
        prompts=prompts,
        max_new_tokens=budget,
        tokens=tuple(tokens for tokens, _ in answers),
        first_logits_top=tuple(top for _, top in answers),
    )
    largest = max(abs(value) for _, top in answers for _, value in top)
    return Golden(requests=(request,), logits_tolerance=allowed.absolute(largest))


def golden_features(extractor: Any, front_end: FrontEnd, plan: CapacityPlan) -> GoldenFeatures:
    """What the extractor makes of the golden sound, each row alone: some values, spread over bins and frames."""
    rows = []
    for waveform_N in golden_waveform(min(plan.max_batch, FEATURE_ROWS), front_end.samples):
        answer = extractor(waveform_N.numpy(), sampling_rate=front_end.sampling_rate, return_tensors="np")
        features_MF = answer.input_features[0]
        bins, frames = features_MF.shape
        places = [(place * 7 % bins, place * frames // FEATURES) for place in range(FEATURES)]
        rows.append(tuple((mel, frame, float(features_MF[mel, frame])) for mel, frame in places))
    largest = max(abs(value) for row in rows for _, _, value in row)
    allowed = max(features_tolerance(backend).absolute(largest) for backend in plan.recipe.backends)
    return GoldenFeatures(tuple(rows), allowed)


def answer_row(
    model: PreTrainedModel,
    prompt: tuple[int, ...],
    source: tuple[int, ...] | None,
    heard: Tensor | None,
    rules: TokenRules,
    budget: int,
    lead: float = 0.0,
) -> tuple[tuple[int, ...], tuple[tuple[int, float], ...]]:
    """Greedy tokens of one row, and the largest logits after its prompt.

    Its encoder input is `source`, or `heard`: features `[1, M, F]`, sound `[1, N]`, or what `stock_input` makes of it.

    The answer ends before a token that leads the next best by less than `lead` times the step's largest logit (at least
    1): where programs may differ that much, either is right.
    """
    with torch.no_grad():
        step = eager_step(model, source, heard)
        logits_V = step(torch.tensor([prompt]))
        best = torch.topk(logits_V, min(TOP, logits_V.shape[0]))
        if not math.isfinite(best.values[0]):
            raise NoTokenAllowed(len(prompt), float(best.values[0]))
        top = tuple(
            (int(token), float(value)) for value, token in zip(best.values, best.indices, strict=True)
        )
        tokens: list[int] = []
        while len(tokens) < budget:
            position = len(prompt) + len(tokens)
            token = greedy_token(logits_V, rules, position, len(prompt))
            needed = lead * max(1.0, float(logits_V.abs().max()))
            if lead > 0.0 and _lead_of(token, logits_V, rules, position, len(prompt)) < needed:
                break
            tokens.append(token)
            if tokens[-1] in rules.eos or len(tokens) == budget:
                break
            logits_V = step(torch.tensor([tokens[-1:]]))
    return tuple(tokens), top


def _lead_of(token: int, logits_V: Tensor, rules: TokenRules, position: int, start: int) -> float:
    """By how much the chosen token's logit exceeds that of the next best allowed one; infinite without another."""
    others_V = logits_V.clone()
    others_V[token] = -math.inf
    try:
        second = greedy_token(others_V, rules, position, start)
    except NoTokenAllowed:
        return math.inf
    return float(logits_V[token] - logits_V[second])


def _why_no_token(error: NoTokenAllowed) -> str:
    """What is wrong with the model, not with a bundle: there is none yet."""
    if error.best == -math.inf:
        fault = f"every token is suppressed at position {error.position}"
        return f"{fault}; shorten suppress_tokens, begin_suppress_tokens or bad_words_ids in generation_config.json"
    fault = f"the model's own logits in eager PyTorch are {error.best} before position {error.position}"
    return f"{fault}; its weights are damaged or overflow: use another checkpoint"


def eager_step(
    model: PreTrainedModel, source: tuple[int, ...] | None = None, heard: Tensor | None = None
) -> Step:
    """A function that feeds tokens to the stock model with a dynamic cache of exact size."""
    if source is None and heard is None:
        cache = DynamicCache(config=model.config)
        return lambda tokens: model(input_ids=tokens, cache=cache, use_cache=True).logits[0, -1].float()
    encoder = model.get_encoder()
    encoded = encoder(**{encoder.main_input_name: torch.tensor([source]) if heard is None else heard})
    cross = EncoderDecoderCache(DynamicCache(), DynamicCache())
    return lambda tokens: (
        model(encoder_outputs=encoded, decoder_input_ids=tokens, cache=cross, use_cache=True)
        .logits[0, -1]
        .float()
    )


def _sources(plan: CapacityPlan, rules: TokenRules, rows: int) -> tuple[tuple[int, ...], ...] | None:
    """Token ids of several lengths for a text encoder."""
    if plan.kind != "text_seq2seq":
        return None
    lengths = [min(length, plan.max_enc or 1) for length in _SOURCE_LENGTHS[:rows]]
    return tuple(random_ids(rules, length, SEED + row) for row, length in enumerate(lengths))


def _heard(model: PreTrainedModel, plan: CapacityPlan, rows: int) -> list[Tensor] | None:
    """What a speech encoder takes, of one length or of several; a batch of one for each row."""
    speech = plan.speech
    if plan.sound is not None and speech is not None and speech.positions is not None:
        sounds = seeded_sounds(SEED, golden_lengths(rows, speech, speech.positions))
        return [stock_input(model.config, plan.sound, sound_N) for sound_N in sounds]
    if plan.source_shape is None:
        return None
    return list(seeded_features(SEED, rows, plan.source_shape).split(1))


def _prompts(plan: CapacityPlan, rules: TokenRules, rows: int) -> tuple[tuple[int, ...], ...]:
    if plan.kind != "decoder_only":
        return (rules.start,) * rows
    room = max(1, plan.recipe.max_dec - 1)
    return tuple(random_ids(rules, min(length, room), row) for row, length in enumerate(_ROW_LENGTHS[:rows]))


def random_ids(rules: TokenRules, length: int, seed: int) -> tuple[int, ...]:
    """Seeded token ids that are no special token."""
    special = {*rules.eos, rules.pad, *rules.start}
    generator = torch.Generator().manual_seed(seed)
    order = torch.randint(0, rules.vocab_size, (length * 8 + 64,), generator=generator).tolist()
    return tuple([token for token in order if token not in special][:length])
