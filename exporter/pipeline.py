"""One export, start to end: look, plan, load, record, trace, lower, write, verify."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from exporter.planned import Planned, plan_export
from exporter.report import ExportReport
from exporter.spec.capacity_plan import CapacityPlan
from exporter.spec.memory_budget import machine_memory_bytes, needed, require_machine, require_planned
from exporter.spec.progress import OfDraft, Progress, SilentProgress
from exporter.spec.recipe import Recipe
from exporter.spec.weight_format import FLOAT_BITS
from runtime_shims.contract.manifest_rules import DRAFT_MANIFEST
from runtime_shims.contract.out_of_memory import memory_for

if TYPE_CHECKING:
    from torch import nn
    from transformers import PreTrainedModel

    from exporter.lower.program_file import LoweredProgram
    from exporter.models.speech_features import FrontEnd
    from exporter.trace.methods import Method
    from exporter.trace.trace import ExportedProgram
    from exporter.verify.parity import Stages
    from runtime_shims.contract.manifest import Attention, ResolvedRecipe


def export_bundle(
    recipe: Recipe,
    output: Path,
    *,
    force: bool = False,
    verify: bool = True,
    max_memory_bytes: int | None = None,
    greedy: bool = False,
    progress: Progress | None = None,
) -> ExportReport:
    """Export `recipe` to the directory `output`; everything that can be refused is, before weights are read.

    Without `max_memory_bytes` the plan must fit this machine, on which the export runs and verifies the program.

    Raises:
        SpecError: a recipe, model, plan, generation setting or output that is refused; one line.
        ExportFailed: the disk is full, or the program does not repeat eager PyTorch; nothing is kept.
        OutOfMemory: this machine could not give what the export needs; nothing is kept.
    """
    from exporter.bundle.writer import check_output, staging

    progress = progress or SilentProgress()
    check_output(output, force=force)
    planned = plan_export(recipe, max_memory_bytes=max_memory_bytes, greedy=greedy)
    if max_memory_bytes is None:
        require_machine(planned.plan, machine_memory_bytes(), planned.draft_plan)
    progress.planned(planned.plan, planned.draft_plan)
    cost = f"{recipe.model}: {needed(planned.plan, planned.draft_plan)} at run time and several times its weights now"
    with staging(output) as aside, memory_for(cost, "lower the limits, or export on a larger machine"):
        draft = None if planned.draft is None else _write_draft(planned.draft, aside, output, verify, progress)
        return replace(_write(planned, aside, output, verify, progress, draft), draft=draft)


def _write_draft(planned: Planned, aside: Path, output: Path, verify: bool, progress: Progress) -> ExportReport:
    """A bundle inside the bundle, written first: the other's manifest names its manifest."""
    directory = Path(DRAFT_MANIFEST).parent
    (aside / directory).mkdir()
    return _write(planned, aside / directory, output / directory, verify, OfDraft(progress))


def _write(
    planned: Planned,
    aside: Path,
    output: Path,
    verify: bool,
    progress: Progress,
    draft: ExportReport | None = None,
) -> ExportReport:
    from exporter.bundle.golden import golden_features, make_golden
    from exporter.bundle.golden_drafts import make_golden_drafts
    from exporter.bundle.manifest_builder import Exported, build_manifest
    from exporter.bundle.model_configs import save_model_configs
    from exporter.bundle.pieces import save_pieces
    from exporter.bundle.writer import file_entries, save_text_files, write_manifest
    from exporter.models.speech_features import front_end_of
    from exporter.trace.graph_checks import check_graphs
    from exporter.trace.methods import program_methods
    from exporter.trace.trace import trace_methods
    from exporter.verify.parity import verify_bundle
    from runtime_shims.reference.golden import GOLDEN_NAME, to_json

    plan = planned.plan
    model = _load(planned, progress)
    tokenizer, extractor = None, None
    if not planned.is_draft:
        tokenizer, extractor = planned.source.load_tokenizer(), planned.source.load_processor()
        save_model_configs(aside, planned.source.load_config(), planned.source.load_generation_config())
    save_text_files(aside, tokenizer, extractor)
    front_end = front_end_of(extractor, plan.source_shape)
    progress.stage("recording eager answers")
    golden = make_golden(model, plan, planned.rules.tokens)
    if front_end is not None:
        golden = replace(golden, features=golden_features(extractor, front_end, plan))
    if (assistant := _load_assistant(planned)) is not None:
        golden = replace(golden, drafts=make_golden_drafts(model, assistant, plan, golden.requests[0]))
        del assistant  # the program takes one of its own
    (aside / GOLDEN_NAME).write_text(to_json(golden), encoding="utf-8")
    save_pieces(aside, tokenizer, plan.vocab_size, [row for request in golden.requests for row in request.tokens])
    methods = program_methods(plan, front_end)
    programs: tuple[LoweredProgram, ...] = ()
    for spelling, backends in by_spelling(plan.recipe).items():
        if programs:  # each spelling takes a model of its own: lowering takes the weights
            model = _load(planned, progress)
        progress.stage("tracing")
        traced = trace_methods(_modules(model, plan, spelling, front_end, _load_assistant(planned)), methods)
        check_graphs(traced)
        del model  # lowering takes the weights: a large model is in memory once
        named = replace(plan, recipe=replace(plan.recipe, model=planned.source.name))  # never a path of this machine
        programs += lower_programs(traced, methods, backends, named, aside, progress)
        del traced  # with the stored weights, which are in the file
    draft_bytes = 0 if draft is None else draft.weights_bytes + draft.planned_bytes
    planned_bytes = max(program.planned_bytes for program in programs)
    require_planned(plan, planned_bytes, planned.max_memory_bytes, draft_bytes)
    exported = Exported(
        planned.source, planned.spec, plan, planned.rules, methods, programs, front_end, planned.draft_name
    )
    progress.stage("writing the bundle")
    manifest = build_manifest(exported, file_entries(aside))
    write_manifest(aside, manifest)
    difference, golden_tokens = None, 0
    if verify:
        progress.stage("verifying against eager")
        results = verify_bundle(aside, lambda backend: _stages(planned, backend, front_end))
        difference = max(result.logits_difference for result in results)
        golden_tokens = min(result.tokens for result in results)
    return ExportReport(
        bundle=str(output),
        kind=plan.kind,
        attention=plan.recipe.attention,
        programs={program.path.name: program.size_bytes for program in programs},
        weights_bytes=plan.weights_bytes,
        cache_bytes=plan.cache_bytes,
        planned_bytes=manifest.memory.planned_bytes,
        logits_difference=difference,
        golden_tokens=golden_tokens,
        dropped_settings=planned.rules.dropped,
        assumed_settings=planned.rules.assumed,
        text_part_only=planned.source.is_text_part,
    )


def _load(planned: Planned, progress: Progress) -> PreTrainedModel:
    from exporter.weights.stored_model import load_stored

    return load_stored(planned.source, planned.plan.recipe, progress)


def _load_assistant(planned: Planned) -> PreTrainedModel | None:
    from exporter.weights.stored_model import load_stored_assistant

    if planned.assistant is None:
        return None
    return load_stored_assistant(planned.assistant, planned.plan.recipe)


def _modules(
    model: PreTrainedModel,
    plan: CapacityPlan,
    spelling: Attention,
    front_end: FrontEnd | None,
    assistant: PreTrainedModel | None = None,
) -> dict[str, nn.Module]:
    """The methods of the program, over models that have given their eager answers."""
    from exporter.cache.spellings import ONNX
    from exporter.models.methods import build_methods
    from exporter.weights.half import compute_in_half
    from exporter.weights.quantize import keep_integers_only
    from exporter.weights.torchao_form import plain_tensors

    for one in (model,) if assistant is None else (model, assistant):
        if plan.recipe.attention == "fused" or (spelling == ONNX and plan.recipe.quantize != "none"):
            keep_integers_only(one)
        elif plan.recipe.quantize != "none":
            plain_tensors(one)
        elif spelling == ONNX and plan.recipe.dtype == "float16":
            compute_in_half(one)
    return build_methods(model, plan, spelling, front_end, assistant)


def by_spelling(recipe: ResolvedRecipe) -> dict[Attention, tuple[str, ...]]:
    """The spellings of a recipe's programs, each with its backends, in the order of the recipe."""
    from exporter.cache.spellings import spelling_of

    spellings = {backend: spelling_of(backend, recipe.attention) for backend in recipe.backends}
    return {
        wanted: tuple(backend for backend, spelling in spellings.items() if spelling == wanted)
        for wanted in dict.fromkeys(spellings.values())
    }


def _stages(planned: Planned, backend: str, front_end: FrontEnd | None) -> Stages:
    """The rungs below the program of a backend, made afresh: only a bundle that differs needs them."""
    from exporter.cache.spellings import spelling_of
    from exporter.trace.methods import program_methods
    from exporter.trace.trace import trace_methods
    from exporter.verify.parity import Stages

    spelling = spelling_of(backend, planned.plan.recipe.attention)
    model, assistant = _load(planned, SilentProgress()), _load_assistant(planned)
    modules = _modules(model, planned.plan, spelling, front_end, assistant)
    return Stages(modules, trace_methods(modules, program_methods(planned.plan, front_end)))


def lower_programs(
    traced: dict[str, ExportedProgram],
    methods: tuple[Method, ...],
    backends: tuple[str, ...],
    plan: CapacityPlan,
    aside: Path,
    progress: Progress,
) -> tuple[LoweredProgram, ...]:
    """Programs in `aside` for backends of one spelling. The fused form takes the weights out of `traced`."""
    if "onnx" in backends:
        from exporter.lower.onnx import lower_to_onnx

        progress.stage("lowering to onnx")
        return (lower_to_onnx(traced, methods, plan, aside),)
    from exporter.lower.executorch import lower_to_executorch
    from exporter.lower.executorch_rows import with_row_operators
    from exporter.lower.executorch_weights import with_stored_weights

    if plan.recipe.attention == "fused":
        progress.stage("storing weights")
        traced = {name: with_row_operators(program) for name, program in traced.items()}
        traced = with_stored_weights(traced, FLOAT_BITS[plan.recipe.dtype])
    programs = []
    for backend in backends:
        progress.stage(f"lowering to {backend}")
        path = aside / f"model.{backend}.pte"
        programs.append(lower_to_executorch(traced, backend, plan.recipe.attention, path))
    return tuple(programs)
