"""Faults that users of comparable tools reported, and the tests that hold each of them.

`HELD_BY` is the index. A fault whose test has its place elsewhere is named there; the others are tested below.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import WhisperConfig

from exporter.cache import core_form
from exporter.spec.capacity_plan import CapacityPlan
from exporter.spec.model_spec import ModelSpec
from exporter.spec.recipe import Recipe
from exporter.trace.graph_checks import used_parameters
from runtime_shims.contract.errors import UserInputError
from runtime_shims.reference.program import StepInputs
from tests.parity.programs import (
    GEMMA,
    GEMMA_PORTABLE,
    PROGRAMS,
    T5,
    T5_PORTABLE,
    WHISPER,
    WHISPER_PORTABLE,
    Lowered,
    ProgramCase,
    ProgramStore,
    on,
)
from tests.parity.schedules import Request, compare, in_chunks, start
from tests.parity.support import WRONG, Capacity, Planned, StockModel, module_session
from tests.support.tiny_configs import VOCAB, WINDOW
from tests.support.tiny_models import CASES

TESTS = Path(__file__).parents[1]
ATTENTIONS = pytest.mark.parametrize("attention", ["fused", "portable"])

HELD_BY = {
    "the encoder's length and the batch had to be exactly the cache's": (
        "parity/test_lowered.py::test_any_batch_and_any_encoder_length_in_any_chunking_equal_stock",
        "parity/test_lowered.py::test_a_full_batch_then_one_row_then_a_full_batch_show_no_stale_rows",
        "parity/test_controls.py::test_a_program_that_does_not_get_the_encoder_lengths_is_wrong",
    ),
    "a requested capacity was ignored": (
        "parity/test_program_memory.py::test_the_manifest_says_what_was_asked_for",
        "unit/test_capacity_plan.py::test_all_wrong_limits_are_listed_at_once",
    ),
    "one token past the cache crashed or was lost": (
        "parity/test_lowered_limits.py::test_exactly_the_capacity_can_be_used_and_one_token_more_is_refused",
        "parity/test_lowered_limits.py::test_generation_stops_at_the_capacity_with_every_position_used",
        "properties/test_cache_law_limits.py::test_one_token_past_the_capacity_is_refused_before_anything_changes",
    ),
    "the cross cache was sized from the input": (
        "parity/test_known_faults.py::test_a_cross_cache_has_the_length_of_the_encoders_output",
        "unit/test_capacity_plan.py::test_the_encoder_length_of_whisper_cannot_be_chosen",
    ),
    "the context was capped at the window": (
        "parity/test_known_faults.py::test_window_chunk_and_context_are_three_limits",
    ),
    "logits were planned for every position": (
        "parity/test_known_faults.py::test_logits_are_computed_for_the_requested_rows_only",
    ),
    "the encoder was traced without its mask, or logits were off by a scale": (
        "parity/test_lowered.py::test_padding_the_source_to_any_width_changes_nothing",
        "parity/test_lowered.py::test_the_other_rows_of_a_batch_change_nothing",
        "parity/test_families.py::test_ragged_steps_idle_rows_and_rollbacks_equal_stock",
    ),
    "the check and the product used other generation settings": (
        "unit/test_token_rules.py::test_a_setting_that_no_runtime_honours_is_refused_by_name",
        "unit/test_token_rules.py::test_every_setting_that_transformers_knows_has_been_judged",
        "unit/test_pipeline.py::test_plan_and_export_refuse_the_same_generation_settings",
    ),
    "cross keys and values were projected for every token": (
        "parity/test_known_faults.py::test_decode_uses_no_weight_that_fills_the_cross_caches",
        "parity/test_graph_checks.py::test_a_bad_decode_graph_is_refused_by_name",
        "parity/test_lowered.py::test_a_request_is_answered_the_same_after_others_were_begun_and_left",
    ),
    "the relative bias ignored the cache offset": (
        "parity/test_known_faults.py::test_three_hundred_tokens_at_any_width_equal_one_full_pass",
        "parity/test_known_faults.py::test_a_relative_bias_that_is_one_off_is_noticed",
    ),
    "the output bias and the start token were lost": (
        "parity/test_known_faults.py::test_the_output_bias_and_the_start_token_are_kept",
    ),
    "a runner for decoders crashed on encoder-decoders": (
        "parity/test_known_faults.py::test_the_kind_is_in_the_manifest_and_input_of_another_kind_is_refused",
        "parity/test_run_model.py::test_bench_and_inspect_run_on_a_real_bundle",
    ),
    "a chunk of two windows lost its tail": (
        "parity/test_controls.py::test_a_whole_prompt_wider_than_the_step_is_refused_by_the_operator_and_by_the_plan",
        "parity/test_lowered_limits.py::test_a_step_wider_than_the_program_is_refused_before_anything_is_written",
        "properties/test_cache_law_limits.py::test_a_call_wider_than_max_step_is_refused_and_names_the_option",
    ),
    "the window came from eviction and not from the mask": (
        "parity/test_known_faults.py::test_the_size_of_a_chunk_changes_nothing",
        "parity/test_controls.py::test_a_ring_of_window_slots_is_wrong_in_wide_steps_only",
    ),
    "trimming assumed one token a call": (
        "parity/test_lowered.py::test_ragged_steps_idle_rows_and_rollbacks_past_ten_windows_equal_stock",
    ),
    "a rollback did nothing, or failed, once the ring had wrapped": (
        "parity/test_lowered.py::test_ten_windows_with_random_rejected_drafts_equal_eager_greedy",
        "parity/test_lowered_limits.py::test_a_rollback_below_the_floor_is_refused_and_nothing_was_changed",
        "parity/test_lowered_limits.py::test_a_cache_that_never_wrapped_can_be_rolled_back_to_its_first_token",
    ),
    "two rollbacks in a row read overwritten slots": (
        "parity/test_controls.py::test_rolling_back_below_the_floor_reads_what_was_overwritten",
        "properties/test_cache_law.py::test_a_floor_recomputed_from_the_current_length_reads_stale_slots",
        "properties/test_operator_spellings.py::test_steps_and_chained_rollbacks_equal_plain_lists",
    ),
    "the window was off by one": (
        "parity/test_controls.py::test_a_needle_is_seen_at_the_last_position_of_the_window_and_not_one_behind_it",
        "parity/test_controls.py::test_a_window_that_is_one_too_wide_is_wrong",
        "properties/test_cache_law_limits.py::test_a_token_sees_window_minus_one_back_but_not_window",
    ),
    "a row that sees nothing became NaN or a mean": (
        "properties/test_operator_spellings.py::test_queries_that_see_nothing_yield_zero_and_never_nan",
        "parity/test_known_faults.py::test_a_step_of_idle_rows_alone_gives_finite_logits",
    ),
    "masks added up to minus infinity": (
        "parity/test_known_faults.py::test_no_traced_graph_holds_an_infinity",
        "parity/test_known_faults.py::test_a_mask_stays_finite_under_any_bias",
    ),
    "methods duplicated, shared blindly or did not define their state": (
        "parity/test_lowered.py::test_encoding_again_between_steps_disturbs_no_decoder_state",
        "parity/test_controls.py::test_methods_loaded_one_by_one_do_not_share_their_caches",
        "parity/test_program_memory.py::test_the_arena_of_mutable_buffers_is_exactly_the_planned_caches",
        "parity/test_lowered_limits.py::test_a_failed_step_is_refused_until_reset_and_a_reset_serves_again",
    ),
}


@pytest.mark.parametrize("fault", HELD_BY)
def test_every_fault_is_held_by_tests_that_exist(fault: str) -> None:
    for test in HELD_BY[fault]:
        file, name = test.split("::")
        assert re.search(rf"^def {name}\(", (TESTS / file).read_text(encoding="utf-8"), re.MULTILINE), test


def test_a_cross_cache_has_the_length_of_the_encoders_output() -> None:
    tiny = Planned.of("whisper", "fused").plan
    assert (tiny.source_shape, {cache.geometry.slots for cache in tiny.cross_caches}) == ((16, 40), {20})
    spec = ModelSpec.from_config(WhisperConfig())
    plan = CapacityPlan.build(spec, Recipe("whisper").resolve(spec))
    assert (plan.source_shape, {cache.geometry.slots for cache in plan.cross_caches}) == ((80, 3000), {1500})


@ATTENTIONS
def test_window_chunk_and_context_are_three_limits(attention: str) -> None:
    capacity = Capacity(max_batch=1, max_dec=100, max_draft=2, prefill_chunk=11)
    session, stock = module_session("mistral", attention, capacity), StockModel("mistral")
    entries = session.manifest.caches
    assert {(entry.reach, entry.slots) for entry in entries} == {(WINDOW, WINDOW + 11 - 1)}
    request = Request.random(stock, [100])
    found = compare([*start(session, request, [95]), *in_chunks(session, request, 3)], request.expected(stock))
    assert found.passed, found
    assert session.length(0) == 100


@pytest.mark.parametrize("case", [T5, WHISPER, GEMMA, GEMMA_PORTABLE], ids=str)
def test_logits_are_computed_for_the_requested_rows_only(programs: ProgramStore, case: ProgramCase) -> None:
    """No tensor of the graph has the vocabulary's width and one entry per step token."""
    graph = programs.planned(case).traced["decode"].graph
    values = {node.name: node.meta["val"] for node in graph.nodes if isinstance(node.meta.get("val"), Tensor)}
    shapes = [value.shape for value in values.values() if value.dim() == 3 and value.shape[-1] == VOCAB]
    assert shapes
    assert {str(shape[1]) for shape in shapes} == {str(values["logit_rows"].shape[1])}


@pytest.mark.parametrize("case", [T5, WHISPER], ids=str)
def test_decode_uses_no_weight_that_fills_the_cross_caches(programs: ProgramStore, case: ProgramCase) -> None:
    traced = programs.planned(case).traced
    cross = {name for name in used_parameters(traced["encode"]) if ".decoder." in name}
    assert cross
    assert {name.split(".")[-2] for name in cross} <= {"k", "v", "k_proj", "v_proj"}
    assert not cross & used_parameters(traced["decode"])


@ATTENTIONS
@pytest.mark.parametrize("width", [1, 4, 7])
def test_three_hundred_tokens_at_any_width_equal_one_full_pass(attention: str, width: int) -> None:
    capacity = Capacity(max_batch=1, max_dec=300, max_draft=6, prefill_chunk=7)
    stock = StockModel("t5")
    request = Request.random(stock, [300], [20])
    answers = in_chunks(module_session("t5", attention, capacity), request, width)
    found = compare(answers, request.expected(stock))
    assert found.passed, found
    assert found.answers == 300


@ATTENTIONS
@pytest.mark.parametrize("case", ["t5", "bloom"])
def test_a_relative_bias_that_is_one_off_is_noticed(case: str, attention: str) -> None:
    planned, stock = Planned.of(case, attention), StockModel(case)
    request = Request.random(stock, [20], [10])
    for name, holder in planned.methods["decode"].root.bias_tables.items():
        if name.startswith(("decoder", "alibi")):
            holder.table_HN.copy_(holder.table_HN.roll(1, dims=1))
    found = compare(in_chunks(planned.session(planned.methods), request, 4), request.expected(stock))
    assert not found.passed
    assert found.difference > WRONG


@pytest.mark.parametrize("case", ["bart", "mbart", "marian"])
def test_the_output_bias_and_the_start_token_are_kept(case: str) -> None:
    stock, session = StockModel(case), module_session(case, "fused")
    assert session.manifest.tokens.start == (stock.model.config.decoder_start_token_id,)
    request = Request.random(stock, [12], [10])
    answers = list(in_chunks(session, request, 4))
    assert compare(answers, request.expected(stock)).passed
    stock.model.final_logits_bias.zero_()
    assert compare(answers, request.expected(stock)).difference > WRONG


@pytest.mark.parametrize("case", CASES)
def test_the_kind_is_in_the_manifest_and_input_of_another_kind_is_refused(case: str) -> None:
    session, kind = module_session(case, "fused"), CASES[case].kind
    assert session.manifest.kind == kind
    wrong = {"decoder_only": [[5, 6]], "text_seq2seq": None, "speech_seq2seq": [[5, 6]]}[kind]
    with pytest.raises(UserInputError) as refused:
        session.begin([[5]], wrong)
    assert "\n" not in str(refused.value)


@ATTENTIONS
@pytest.mark.parametrize("case", ["mistral", "gemma2"])
def test_the_size_of_a_chunk_changes_nothing(case: str, attention: str) -> None:
    stock = StockModel(case)
    request = Request.random(stock, [34, 20])
    expected = request.expected(stock)
    for chunk in (1, WINDOW - 1, WINDOW, WINDOW + 1, 2 * WINDOW, 30):
        session = module_session(case, attention, Capacity(prefill_chunk=chunk))
        answers = [*start(session, request, [30, 16])]
        for width in (1, 3):
            held = [session.length(row) for row in range(2)]
            logits = session.step([text[at : at + width] for text, at in zip(request.texts, held, strict=True)])
            answers += [(row, held[row] + j, logits[row, j].clone()) for row in range(2) for j in range(width)]
        found = compare(answers, expected)
        assert found.passed, (chunk, found)


@on(*PROGRAMS)
def test_a_step_of_idle_rows_alone_gives_finite_logits(lowered: Lowered) -> None:
    """No row writes, none sees a key, no encoder position is there: zeros all the way, never NaN."""
    zeros = torch.zeros(2, dtype=torch.int64)
    step = torch.zeros(2, 3, dtype=torch.int64)
    enc_lengths = None if lowered.session.limits.max_enc is None else zeros
    logits = lowered.program.decode(StepInputs(step, zeros, zeros, step, enc_lengths))
    assert torch.isfinite(logits).all()


@pytest.mark.parametrize("case", [T5_PORTABLE, WHISPER_PORTABLE, GEMMA_PORTABLE, GEMMA], ids=str)
def test_no_traced_graph_holds_an_infinity(programs: ProgramStore, case: ProgramCase) -> None:
    for program in programs.planned(case).traced.values():
        scalars = [arg for node in program.graph.nodes for arg in node.args if isinstance(arg, float)]
        assert not [scalar for scalar in scalars if math.isinf(scalar)]
        tensors = [value for value in program.constants.values() if isinstance(value, Tensor)]
        assert all(torch.isfinite(value).all() for value in tensors if value.is_floating_point())


def test_a_mask_stays_finite_under_any_bias() -> None:
    """Mask and bias are added before the softmax; the sum of the two lowest must not become minus infinity."""
    lowest = torch.tensor([core_form.MASKED_SCORE, torch.finfo(torch.float32).min / 2])
    assert torch.isfinite(lowest + lowest).all()
    row = torch.full((1, 4), core_form.MASKED_SCORE) + torch.tensor([-1e4, 0.0, 1e4, 5.0])
    assert torch.isfinite(torch.softmax(row, dim=-1)).all()
