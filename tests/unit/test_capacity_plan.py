"""Geometries and bytes of a plan, and the limits that are refused before anything is built."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
from transformers import AutoConfig

from exporter.plan_view import cache_lines
from exporter.spec.capacity_plan import CapacityPlan
from exporter.spec.faults import PlanError, RecipeError
from exporter.spec.memory import parse_bytes
from exporter.spec.memory_budget import machine_memory_bytes, require_machine
from exporter.spec.model_spec import ModelSpec
from exporter.spec.recipe import Recipe
from recipes.geometries.index import GEOMETRIES
from runtime_shims.contract.manifest import Limits
from tests.support import tiny_configs, tiny_experts, tiny_seq2seq


def spec_of(name: str, **changes: Any) -> ModelSpec:
    return ModelSpec.from_config(AutoConfig.for_model(**(GEOMETRIES[name]() | changes)))


def plan_of(name: str, *, max_memory_bytes: int | None = None, **options: Any) -> CapacityPlan:
    spec = spec_of(name)
    recipe = Recipe(name, **options).resolve(spec)
    return CapacityPlan.build(spec, recipe, max_memory_bytes=max_memory_bytes)


def faults_of(name: str, **options: Any) -> tuple[str, ...]:
    with pytest.raises(PlanError) as refused:
        plan_of(name, **options)
    assert "\n" not in str(refused.value)
    return refused.value.faults


def test_a_sliding_layer_costs_its_window_and_the_step_instead_of_the_context() -> None:
    plan = plan_of("gemma-3-270m", max_dec=8192, prefill_chunk=132)
    assert [line for line, _, _ in cache_lines(plan)] == [
        "15 x sliding window 512 -> 643 slots",
        "3 x full attention 8192 -> 8323 slots",
    ]
    bytes_per_position = 1 * (256 + 256) * 4
    assert plan.cache_bytes == (15 * 643 + 3 * 8323) * bytes_per_position
    assert plan.dynamic_cache_bytes == (15 * 512 + 3 * 8192) * bytes_per_position
    assert plan.static_cache_bytes == 18 * 8192 * bytes_per_position


def test_an_encoder_decoder_has_a_self_and_a_cross_cache_per_layer() -> None:
    plan = plan_of("t5-small", max_batch=8, max_enc=512, max_dec=256, prefill_chunk=16)
    assert [line for line, _, _ in cache_lines(plan)] == [
        "6 x full attention 256 -> 271 slots",
        "6 x cross-attention 512 -> 512 slots",
    ]
    assert plan.cache_bytes == 6 * (271 + 512) * 8 * 8 * (64 + 64) * 4
    assert (plan.encoder_width, plan.position_limit, plan.source_shape) == (512, None, None)


def test_cross_caches_have_the_decoders_grouped_heads_and_any_width_of_encoder() -> None:
    spec = ModelSpec.from_config(tiny_seq2seq.t5gemma())
    plan = CapacityPlan.build(spec, Recipe("t5gemma", max_enc=20, max_dec=30).resolve(spec))
    assert [(cache.kind, cache.kv_heads, cache.key_dim) for cache in plan.caches] == [
        ("sliding", 2, 12),
        ("full", 2, 12),
        ("cross", 2, 12),
        ("cross", 2, 12),
    ]
    assert plan.encoder_width == 24


def test_merged_attention_has_a_cache_for_the_step_and_one_for_the_encoder_of_its_own_heads() -> None:
    spec = ModelSpec.from_config(tiny_seq2seq.t5gemma2())
    plan = CapacityPlan.build(spec, Recipe("t5gemma2", max_enc=20, max_dec=30, max_draft=3).resolve(spec))
    step = plan.max_step
    assert [(cache.kind, cache.kv_heads, cache.geometry.slots) for cache in plan.caches] == [
        ("sliding", 2, 8 + step - 1),
        ("full", 2, 30 + step - 1),
        ("cross", 2, 20),
        ("cross", 2, 20),
    ]


@pytest.mark.parametrize("options", [{"quantize": "8da8w"}, {"quantize": "int8-weights-kv"}, {"dtype": "float16"}])
def test_weights_of_experts_in_another_form_than_float32_are_refused(options: dict[str, Any]) -> None:
    spec = ModelSpec.from_config(tiny_experts.qwen3_moe())
    with pytest.raises(PlanError, match="weights of experts are stored in float32 alone; use --quantize none"):
        CapacityPlan.build(spec, Recipe("qwen3-moe", max_dec=30, **options).resolve(spec))


def test_widths_that_4_bits_in_core_operators_cannot_group_are_refused() -> None:
    spec = ModelSpec.from_config(tiny_configs.llama())
    even = replace(spec, weights=replace(spec.weights, linear=((48, 64), (64, 32))))
    recipe = Recipe("llama", max_dec=30, quantize="8da4w", attention="portable")
    CapacityPlan.build(even, recipe.resolve(even))
    CapacityPlan.build(spec, replace(recipe, attention="fused").resolve(spec))
    with pytest.raises(PlanError, match="multiples of --group-size 32, the model has 48; use --attention fused"):
        CapacityPlan.build(spec, recipe.resolve(spec))


def test_rows_of_sound_that_core_operators_cannot_quantize_are_refused() -> None:
    spec = ModelSpec.from_config(tiny_configs.moonshine())
    recipe = Recipe("moonshine", max_enc=20, max_dec=30, max_batch=2, quantize="8da8w", attention="portable")
    for allowed in (replace(recipe, max_batch=1), replace(recipe, attention="fused"), replace(recipe, quantize="none")):
        CapacityPlan.build(spec, allowed.resolve(spec))
    with pytest.raises(PlanError, match="takes one row of sound, got --max-batch 2; use --attention fused"):
        CapacityPlan.build(spec, recipe.resolve(spec))


def test_grouped_query_heads_are_counted_once() -> None:
    (line, entry, size) = cache_lines(plan_of("smollm2-135m", max_dec=100, prefill_chunk=8))[0]
    assert line == "30 x full attention 100 -> 107 slots"
    assert (entry.kv_heads, entry.size_bytes) == (3, 107 * 3 * 128 * 4)
    assert size == 30 * entry.size_bytes


def test_weights_and_logits_are_counted_in_bytes() -> None:
    plan = plan_of("t5-small", max_batch=3, max_draft=1)
    assert plan.weights_bytes == 60_506_624 * 4
    assert plan.logits_bytes == 3 * 2 * 32128 * 4
    assert plan.total_bytes == plan.weights_bytes + plan.cache_bytes + plan.logits_bytes


@pytest.mark.parametrize(("chunk", "draft", "step"), [(16, 4, 16), (3, 4, 5), (1, 0, 1), (5, 4, 5)])
def test_the_step_is_the_wider_of_prefill_chunk_and_draft_plus_one(chunk: int, draft: int, step: int) -> None:
    limits = plan_of("t5-small", prefill_chunk=chunk, max_draft=draft).limits()
    assert limits == Limits(1, 512, 256, draft, step, draft + 1, None)


def test_a_window_above_the_context_is_capped_by_it() -> None:
    plan = plan_of("gemma-3-270m", max_dec=100, prefill_chunk=16)
    assert {(entry.kind, entry.reach, entry.slots) for entry in plan.entries()} == {
        ("sliding", 100, 115),
        ("full", 100, 115),
    }


def test_the_manifest_entries_are_named_by_role_and_layer() -> None:
    entries = plan_of("t5-small").entries()
    assert [entry.name for entry in entries] == [
        f"{role}.{n}" for role in ("self", "cross") for n in range(6)
    ]
    assert sum(entry.size_bytes for entry in entries) == plan_of("t5-small").cache_bytes


def test_a_layer_that_shares_keys_reads_its_owners_cache() -> None:
    spec = spec_of("smollm2-135m", num_hidden_layers=3)
    shared = replace(spec, layers=(*spec.layers[:2], replace(spec.layers[2], shares_kv_with=0)))
    plan = CapacityPlan.build(shared, Recipe("model").resolve(shared))
    assert len(plan.self_caches) == 2
    assert [plan.cache_of_layer(layer) for layer in range(3)] == [0, 1, 0]


def test_defaults_follow_the_models_own_limits() -> None:
    def defaults(name: str) -> tuple[int | None, int, int]:
        recipe = plan_of(name).recipe
        return recipe.max_enc, recipe.max_dec, recipe.prefill_chunk

    assert defaults("t5-small") == (512, 256, 16)
    assert defaults("opus-mt-en-de") == (512, 256, 16)
    assert defaults("whisper-tiny.en") == (1500, 448, 16)
    assert defaults("gpt2") == (None, 1024, 128)
    assert defaults("smollm2-135m") == (None, 2048, 128)


def test_a_small_context_takes_a_chunk_that_fits() -> None:
    assert plan_of("gpt2", max_dec=20).recipe.prefill_chunk == 20


@pytest.mark.parametrize(("name", "limit"), [("gpt2", 1024), ("bart-base", 1024), ("whisper-tiny.en", 448)])
def test_the_position_table_is_the_last_allowed_context(name: str, limit: int) -> None:
    assert plan_of(name, max_dec=limit).recipe.max_dec == limit
    (fault,) = faults_of(name, max_dec=limit + 1)
    assert fault == (
        f"--max-dec {limit + 1} exceeds the model's {limit} decoder positions; use at most {limit}"
    )


def test_the_encoder_table_is_the_last_allowed_length() -> None:
    assert plan_of("bart-base", max_enc=1024).max_enc == 1024
    (fault,) = faults_of("bart-base", max_enc=1025)
    assert fault == "--max-enc 1025 exceeds the model's 1024 encoder positions; use at most 1024"
    assert plan_of("t5-small", max_enc=5000).max_enc == 5000


@pytest.mark.parametrize("length", [1, 448, 1499, 1501, 3000])
def test_the_encoder_length_of_whisper_cannot_be_chosen(length: int) -> None:
    (fault,) = faults_of("whisper-tiny.en", max_enc=length)
    assert fault == (
        f"--max-enc {length} is not possible: the whisper encoder always gives 1500 output positions; "
        "use 1500 or leave it out"
    )
    assert plan_of("whisper-tiny.en", max_enc=1500).max_enc == 1500


def test_an_encoder_length_without_an_encoder_is_refused() -> None:
    assert faults_of("gpt2", max_enc=9) == (
        "--max-enc 9 has no meaning for gpt2: it has no encoder; leave it out",
    )


def test_all_wrong_limits_are_listed_at_once() -> None:
    faults = faults_of("bart-base", max_enc=2000, max_dec=3000, prefill_chunk=4000)
    assert [fault.split()[0] for fault in faults] == ["--max-dec", "--prefill-chunk", "--max-enc"]


def test_drafts_that_fill_the_whole_context_are_refused() -> None:
    assert faults_of("gpt2", max_dec=4, max_draft=4) == (
        "--max-draft 4 does not fit --max-dec 4; use at most 3",
    )


def test_a_plan_without_rows_is_refused_before_anything_is_built() -> None:
    spec = spec_of("gpt2")
    recipe = replace(Recipe("gpt2").resolve(spec), max_batch=0)
    with pytest.raises(PlanError, match="--max-batch 0 serves no row; use at least 1"):
        CapacityPlan.build(spec, recipe)


def test_the_memory_budget_is_exact() -> None:
    total = plan_of("t5-small", max_batch=8).total_bytes
    assert plan_of("t5-small", max_batch=8, max_memory_bytes=total).total_bytes == total
    (fault,) = faults_of("t5-small", max_batch=8, max_memory_bytes=total - 1)
    assert "more than --max-memory" in fault
    assert "lower --max-batch, --max-enc or --max-dec, or raise --max-memory" in fault


def test_a_budget_below_the_weights_does_not_advise_smaller_caches() -> None:
    (fault,) = faults_of("t5-small", max_memory_bytes=1000)
    assert "choose a smaller model" in fault
    assert "--max-batch" not in fault


def test_a_plan_of_terabytes_allocates_nothing() -> None:
    plan = plan_of("t5-small", max_batch=1000, max_dec=1_000_000, max_enc=1_000_000)
    assert plan.cache_bytes > 10**13


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("512M", 512 * 10**6),
        ("2G", 2 * 10**9),
        ("1.5GB", 1_500_000_000),
        ("1GiB", 2**30),
        ("64ki", 65536),
        ("123", 123),
        (" 2 g ", 2 * 10**9),
    ],
)
def test_sizes_are_read_as_people_write_them(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "much", "-1G", "0", "1X", "1e9", "nan", "inf", "G", "9" * 400, "9" * 5000])
def test_what_is_not_a_size_is_refused(text: str) -> None:
    with pytest.raises(RecipeError, match="is not a size; write it like 512M or 2G"):
        parse_bytes(text)


def test_planning_needs_no_torch_once_the_facts_are_known() -> None:
    code = "import exporter.spec.capacity_plan, exporter.plan_view, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_plan_larger_than_the_machine_is_refused_in_one_line() -> None:
    plan = plan_of("smollm2-135m", max_batch=1000)
    require_machine(plan, plan.total_bytes)
    require_machine(plan, None)
    with pytest.raises(PlanError) as refused:
        require_machine(plan, plan.total_bytes - 1)
    (fault,) = refused.value.faults
    assert re.fullmatch(
        r"it needs \S+ GB \(weights .*, caches .*, logits .*\), more than the \S+ GB of this machine; "
        r"lower --max-batch or --max-dec, or give --max-memory to export it for a larger machine",
        fault,
    )


def test_weights_larger_than_the_machine_are_not_blamed_on_the_limits() -> None:
    plan = plan_of("smollm2-135m")
    with pytest.raises(PlanError) as refused:
        require_machine(plan, plan.weights_bytes)
    (fault,) = refused.value.faults
    assert fault.endswith("of this machine; give --max-memory to export it for a larger machine")


def test_the_memory_of_this_machine_is_known_or_it_is_not_held_against_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    size = machine_memory_bytes()
    assert size is None or size > 10**8
    monkeypatch.delattr("os.sysconf", raising=False)
    assert machine_memory_bytes() is None


def test_a_size_beyond_the_precision_of_a_float_is_read_exactly() -> None:
    assert parse_bytes("9007199254740993") == 9007199254740993
