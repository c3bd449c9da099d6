"""The golden answers are those of stock transformers, recorded before anything of the model is touched."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from transformers import GenerationConfig, PreTrainedModel

from exporter.bundle.golden import NEW_TOKENS, TOP, answer_row, make_golden, random_ids
from exporter.bundle.token_rules import rules_from
from exporter.bundle.tolerances import TOLERANCES
from exporter.spec.capacity_plan import CapacityPlan
from exporter.spec.faults import ExportFailed
from exporter.spec.model_spec import ModelSpec
from exporter.spec.recipe import Recipe
from runtime_shims.contract.manifest import ForcedToken, TokenRules
from runtime_shims.reference.golden import Golden, from_json, to_json
from tests.support.tiny_models import CASES, HEARS_SOUND, build, source, tokens

LENGTH = 12
RULES: dict[str, dict[str, Any]] = {
    "bart": {"forced_bos_token_id": 0, "forced_eos_token_id": 2, "max_length": LENGTH},
    "marian": {"bad_words_ids": [[63], [39]], "suppress_tokens": [32, 9], "max_length": LENGTH},
    "mbart": {"forced_bos_token_id": 33, "begin_suppress_tokens": [8, 21], "max_length": LENGTH},
    "t5": {"eos_token_id": [1, 46], "max_length": LENGTH},
}
"""Settings that change what the tiny models write."""


def plan_of(name: str, **limits: Any) -> CapacityPlan:
    spec = ModelSpec.from_config(CASES[name].config())
    return CapacityPlan.build(spec, Recipe(name, **limits).resolve(spec))


def rules_of(model: PreTrainedModel, max_dec: int = 128) -> TokenRules:
    return rules_from(model.generation_config, ModelSpec.from_config(model.config), max_dec).tokens


def golden_of(name: str, **limits: Any) -> Golden:
    model = build(name)
    return make_golden(model, plan_of(name, **limits), rules_of(model))


@pytest.mark.parametrize("name", RULES)
def test_a_row_is_answered_as_stock_generate_answers_it(name: str) -> None:
    model = build(name)
    config = GenerationConfig(**(model.generation_config.to_dict() | RULES[name]))
    rules = rules_from(config, ModelSpec.from_config(model.config), 128).tokens
    ids = source(name, 1, 9)
    wanted = model.generate(ids, generation_config=config, do_sample=False)[0].tolist()
    start = len(rules.start)
    got, _ = answer_row(model, rules.start, tuple(ids[0].tolist()), None, rules, LENGTH - start)
    assert wanted[:start] == list(rules.start)
    assert wanted[start:] == list(got)
    unruled = replace(rules, forced=(), suppress=(), begin_suppress=(), eos=())
    free, _ = answer_row(model, rules.start, tuple(ids[0].tolist()), None, unruled, LENGTH - start)
    assert free != got, "the rules of this case change nothing, so it proves nothing"


def test_speech_is_answered_as_stock_generate_answers_it() -> None:
    model = build("whisper")
    rules = rules_of(model)
    features = source("whisper", 1, 0)
    wanted = model.generate(features, max_new_tokens=LENGTH)[0].tolist()
    got, _ = answer_row(model, rules.start, None, features, rules, LENGTH)
    assert list(got) == wanted


@pytest.mark.parametrize("name", HEARS_SOUND)
def test_sound_of_any_length_is_answered_as_stock_generate_answers_it(name: str) -> None:
    """Up to the length that the checkpoint allows, whatever the recording's own length: stock counts no seconds."""
    model = build(name)
    model.generation_config.max_length = LENGTH
    rules = rules_from(model.generation_config, ModelSpec.from_config(model.config), 128)
    assert rules.generation.max_new_tokens == LENGTH - 1
    for positions in (1, 9):
        sound = source(name, 1, positions)
        wanted = model.generate(sound, do_sample=False)[0].tolist()
        got, _ = answer_row(model, rules.tokens.start, None, sound, rules.tokens, LENGTH - 1)
        assert [*rules.tokens.start, *got] == wanted
        assert len(wanted) == LENGTH or wanted[-1] in rules.tokens.eos


def test_a_decoder_only_row_is_answered_as_stock_generate_answers_it() -> None:
    model = build("gemma3")
    prompt = tokens(1, 7)
    wanted = model.generate(prompt, max_new_tokens=LENGTH, do_sample=False)[0, 7:].tolist()
    got, top = answer_row(model, tuple(prompt[0].tolist()), None, None, rules_of(model), LENGTH)
    assert list(got) == wanted
    logits = model(input_ids=prompt).logits[0, -1]
    assert [token for token, _ in top] == torch.topk(logits, TOP).indices.tolist()
    assert max(abs(float(logits[token]) - value) for token, value in top) < 1e-5


@pytest.mark.parametrize(("max_batch", "rows"), [(1, 1), (3, 3), (9, 4)])
def test_the_request_has_rows_of_mixed_lengths_up_to_the_batch(max_batch: int, rows: int) -> None:
    (request,) = golden_of("t5", max_batch=max_batch, max_enc=16, max_dec=24).requests
    assert len(request.prompts) == len(request.tokens) == len(request.source or ()) == rows
    assert len({len(row) for row in request.source or ()}) == rows


def test_prompts_sources_and_budget_keep_within_small_capacities() -> None:
    (request,) = golden_of("llama", max_batch=4, max_dec=3, prefill_chunk=2, max_draft=1).requests
    assert [len(prompt) for prompt in request.prompts] == [2, 2, 2, 2]
    assert request.max_new_tokens == 2
    (request,) = golden_of("t5", max_batch=2, max_enc=3, max_dec=24).requests
    assert [len(row) for row in request.source or ()] == [3, 3]
    assert request.max_new_tokens == NEW_TOKENS


def test_one_position_is_enough_for_a_prompt_and_its_answer() -> None:
    (request,) = golden_of("llama", max_dec=1, prefill_chunk=1, max_draft=0).requests
    assert [len(prompt) for prompt in request.prompts] == [1]
    assert [len(row) for row in request.tokens] == [1]


def test_speech_features_are_named_by_their_seed_only() -> None:
    (request,) = golden_of("whisper", max_batch=2).requests
    assert request.source is None
    assert request.features_seed is not None
    assert request.prompts == ((61, 62), (61, 62))


def test_a_recorded_file_reads_back_as_it_was() -> None:
    golden = golden_of("llama", max_batch=2, max_dec=24)
    assert from_json(to_json(golden).encode()) == golden


def test_the_tolerance_is_the_loosest_of_the_backends_at_the_size_of_the_logits() -> None:
    golden = golden_of("llama", max_dec=24, backends=("portable", "xnnpack"))
    (request,) = golden.requests
    largest = max(abs(value) for row in request.first_logits_top for _, value in row)
    assert golden.logits_tolerance == TOLERANCES["float32", "xnnpack"].relative * max(1.0, largest)


def test_recording_leaves_the_model_as_it_was() -> None:
    model = build("gemma2")
    attention = model.config._attn_implementation
    step = tokens(1, 9)
    before = model(input_ids=step).logits
    make_golden(model, plan_of("gemma2", max_dec=24), rules_of(model))
    assert model.config._attn_implementation == attention
    assert torch.equal(model(input_ids=step).logits, before)


def test_random_ids_are_the_same_every_time_and_never_special() -> None:
    rules = TokenRules(vocab_size=8, eos=(1, 2), pad=0, start=(3,), forced=(), suppress=(), begin_suppress=())
    ids = random_ids(rules, 200, seed=4)
    assert len(ids) == 200
    assert set(ids) == {4, 5, 6, 7}
    assert random_ids(rules, 200, seed=4) == ids
    assert random_ids(rules, 200, seed=5) != ids


@pytest.mark.parametrize("name", ["llama", "bart"])
def test_a_model_whose_own_logits_are_no_numbers_is_named_and_no_bundle_is(name: str) -> None:
    """BART's first token is forced: its logits are recorded all the same."""
    model = build(name)
    torch.nn.init.constant_(model.get_output_embeddings().weight, float("nan"))
    rules = replace(rules_of(model), forced=(ForcedToken(1, 0),))
    with pytest.raises(ExportFailed, match=f"{name}: the model's own logits in eager PyTorch are nan") as failure:
        make_golden(model, plan_of(name, max_dec=24), rules)
    assert "run-model" not in str(failure.value)
    assert not isinstance(failure.value, ValueError)


def test_a_vocabulary_that_is_suppressed_whole_is_named_and_no_bundle_is() -> None:
    model = build("llama")
    rules = replace(rules_of(model), suppress=tuple(range(64)))
    message = "llama: every token is suppressed at position 7; shorten suppress_tokens"
    with pytest.raises(ExportFailed, match=message) as failure:
        make_golden(model, plan_of("llama", max_dec=24), rules)
    assert "run-model" not in str(failure.value)


def leads_of(model: PreTrainedModel, text: list[int], prompt: int) -> list[float]:
    """By how much each token after the prompt leads the next best, as a share of its step's largest logit, or of 1."""
    logits = model(input_ids=torch.tensor([text])).logits[0, prompt - 1 : -1]
    best, second = torch.topk(logits, 2).values.unbind(-1)
    return ((best - second) / logits.abs().amax(-1).clamp_min(1.0)).tolist()


@pytest.mark.parametrize("name", ["llama", "gemma3", "gpt2"])
def test_an_answer_ends_before_the_first_token_that_does_not_lead_enough(name: str) -> None:
    model, prompt = build(name), tuple(tokens(1, 7)[0].tolist())
    rules = replace(rules_of(model), eos=())
    whole, top = answer_row(model, prompt, None, None, rules, LENGTH)
    leads = leads_of(model, [*prompt, *whole], len(prompt))
    for lead in (0.0, min(leads) * 0.99, min(leads) * 1.01, sorted(leads)[len(leads) // 2], 10.0):
        undecided = [place for place, found in enumerate(leads) if found < lead]
        wanted = whole[: undecided[0]] if undecided else whole
        assert answer_row(model, prompt, None, None, rules, LENGTH, lead) == (wanted, top)


def test_a_token_without_another_that_is_allowed_leads_by_any_measure() -> None:
    model = build("llama")
    everything_but_one = tuple(token for token in range(model.config.vocab_size) if token != 9)
    rules = replace(rules_of(model), suppress=everything_but_one, eos=())
    answer, _ = answer_row(model, (5, 6), None, None, rules, 3, 10.0)
    assert answer == (9, 9, 9)


@pytest.mark.parametrize(("quantize", "shorter"), [("none", False), ("8da8w", True)])
def test_only_quantized_exports_leave_undecided_tokens_out(quantize: str, shorter: bool) -> None:
    model = build("llama")
    plan = plan_of("llama", max_batch=4, max_dec=40, quantize=quantize, attention="fused")
    (request,) = make_golden(model, plan, replace(rules_of(model), eos=())).requests
    lengths = [len(row) for row in request.tokens]
    assert all(length <= NEW_TOKENS for length in lengths)
    assert (min(lengths) < NEW_TOKENS) == shorter
    assert len(request.first_logits_top) == len(request.prompts) == 4
