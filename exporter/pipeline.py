"""One export, start to end: look, plan, load, record, trace, lower, write, verify."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from exporter.spec.capacity_plan import CapacityPlan
from exporter.spec.faults import PlanError
from exporter.spec.memory_budget import machine_memory_bytes, needed, require_machine, require_planned
from exporter.spec.model_source import ModelSource, resolve_source
from exporter.spec.model_spec import ModelSpec
from exporter.spec.progress import Progress, SilentProgress
from exporter.spec.recipe import Recipe
from exporter.spec.weight_format import FLOAT_BITS, WeightFormat
from runtime_shims.contract.formatting import format_bytes
from runtime_shims.contract.out_of_memory import memory_for

if TYPE_CHECKING:
    from torch import nn
    from transformers import PreTrainedModel

    from exporter.bundle.token_rules import Rules
    from exporter.lower.program_file import LoweredProgram
    from exporter.models.speech_features import FrontEnd
    from exporter.trace.trace import ExportedProgram
    from exporter.verify.parity import Stages


@dataclass(frozen=True)
class ExportReport:
    """What an export wrote, in numbers. `str()` is for people."""

    bundle: str
    kind: str
    attention: str
    programs: dict[str, int]
    weights_bytes: int
    cache_bytes: int
    planned_bytes: int
    logits_difference: float | None
    dropped_settings: tuple[str, ...]
    assumed_settings: tuple[str, ...]

    def __str__(self) -> str:
        files = ", ".join(f"{name} {format_bytes(size)}" for name, size in self.programs.items())
        lines = [f"{self.bundle}: {files} (weights {format_bytes(self.weights_bytes)})"]
        lines.append(
            f"run-time memory: {format_bytes(self.planned_bytes)} planned, of it caches "
            f"{format_bytes(self.cache_bytes)}; attention {self.attention}"
        )
        if self.dropped_settings:
            lines.append(f"decodes greedily; the checkpoint also asks for {', '.join(self.dropped_settings)}")
        if self.assumed_settings:
            assumed = ", ".join(self.assumed_settings)
            lines.append(f"assumes {assumed}: the checkpoint leaves it open; set it in its generation_config.json")
        if self.logits_difference is None:
            lines.append("not verified")
        else:
            lines.append(
                f"verified: golden tokens equal eager PyTorch, logits within {self.logits_difference:.2g}"
            )
        return "\n".join(lines)


@dataclass(frozen=True)
class Planned:
    """A model that has been looked at and fits, before its weights are read."""

    source: ModelSource
    spec: ModelSpec
    plan: CapacityPlan
    rules: Rules
    max_memory_bytes: int | None = None


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
        require_machine(planned.plan, machine_memory_bytes())
    progress.planned(planned.plan)
    cost = f"{recipe.model}: {needed(planned.plan)} at run time and several times its weights now"
    with staging(output) as aside, memory_for(cost, "lower the limits, or export on a larger machine"):
        return _write(planned, aside, output, verify, progress)


def plan_export(recipe: Recipe, *, max_memory_bytes: int | None = None, greedy: bool = False) -> Planned:
    """Look at the model and decide everything that can be decided before its weights are read.

    Raises:
        SpecError: a recipe, model, plan or generation setting that is refused; one line.
    """
    from exporter.bundle.token_rules import rules_from

    recipe = _with_attention(recipe)
    source = resolve_source(recipe)
    spec = ModelSpec.from_config(source.load_config())
    plan = CapacityPlan.build(spec, recipe.resolve(spec), max_memory_bytes=max_memory_bytes)
    rules = rules_from(source.load_generation_config(), spec, plan.recipe.max_dec, greedy=greedy)
    _require_room_for(len(rules.tokens.start), plan)
    return Planned(source, spec, plan, rules, max_memory_bytes)


def _require_room_for(start_tokens: int, plan: CapacityPlan) -> None:
    """Raise PlanError when the decoder cannot even hold the tokens that every request begins with."""
    if start_tokens > plan.recipe.max_dec:
        fault = f"--max-dec {plan.recipe.max_dec} does not hold the decoder's {start_tokens} start tokens"
        raise PlanError(plan.recipe.model, [f"{fault}; use at least {start_tokens}"])


def _with_attention(recipe: Recipe) -> Recipe:
    """Decide the operator's spelling: the kernel where it is installed, core operators elsewhere.

    Raises:
        PlanError: the kernel was asked for and is not installed.
    """
    from runtime_shims.native import operator_library_path

    installed = operator_library_path() is not None
    if recipe.attention is None:
        return replace(recipe, attention="fused" if installed else "portable")
    if recipe.attention == "fused" and not installed:
        fault = "the C++ operator library is not installed; reinstall with a C++20 compiler"
        raise PlanError("--attention fused", [f"{fault}, or use --attention portable"])
    return recipe


def _write(planned: Planned, aside: Path, output: Path, verify: bool, progress: Progress) -> ExportReport:
    from exporter.bundle.golden import golden_features, make_golden
    from exporter.bundle.manifest_builder import Exported, build_manifest
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
    tokenizer, extractor = planned.source.load_tokenizer(), planned.source.load_processor()
    save_text_files(aside, tokenizer, extractor)
    front_end = front_end_of(extractor, plan.source_shape)
    progress.stage("recording eager answers")
    golden = make_golden(model, plan, planned.rules.tokens)
    if front_end is not None:
        golden = replace(golden, features=golden_features(extractor, front_end, plan))
    (aside / GOLDEN_NAME).write_text(to_json(golden), encoding="utf-8")
    save_pieces(aside, tokenizer, plan.vocab_size, [row for request in golden.requests for row in request.tokens])
    progress.stage("tracing")
    methods = program_methods(plan, front_end)
    traced = trace_methods(_modules(model, plan, front_end), methods)
    check_graphs(traced)
    del model  # lowering takes the weights: a large model is in memory once
    programs = lower_programs(traced, plan, aside, progress)
    require_planned(plan, max(program.planned_bytes for program in programs), planned.max_memory_bytes)
    exported = Exported(planned.source, planned.spec, plan, planned.rules, methods, programs, front_end)
    progress.stage("writing the bundle")
    manifest = build_manifest(exported, file_entries(aside))
    write_manifest(aside, manifest)
    difference = None
    if verify:
        progress.stage("verifying against eager")
        results = verify_bundle(aside, lambda: _stages(planned, front_end))
        difference = max(result.logits_difference for result in results)
    return ExportReport(
        bundle=str(output),
        kind=plan.kind,
        attention=plan.recipe.attention,
        programs={program.path.name: program.size_bytes for program in programs},
        weights_bytes=plan.weights_bytes,
        cache_bytes=plan.cache_bytes,
        planned_bytes=manifest.memory.planned_bytes,
        logits_difference=difference,
        dropped_settings=planned.rules.dropped,
        assumed_settings=planned.rules.assumed,
    )


def _load(planned: Planned, progress: Progress) -> PreTrainedModel:
    """The model whose answers the bundle must repeat: quantized or in half precision, where the recipe says so."""
    from exporter.weights.half import round_to_half
    from exporter.weights.quantize import quantize_model
    from exporter.weights.torchao_form import quantize_for_xnnpack

    model = planned.source.load_model(progress)
    recipe = planned.plan.recipe
    weights = WeightFormat.of(recipe)
    if weights.is_quantized:
        progress.stage("quantizing weights")
        quantize = quantize_model if recipe.attention == "fused" else quantize_for_xnnpack
        quantize(model, weights)
    elif recipe.dtype == "float16":
        progress.stage("rounding weights")
        round_to_half(model)
    return model


def _modules(model: PreTrainedModel, plan: CapacityPlan, front_end: FrontEnd | None) -> dict[str, nn.Module]:
    """The methods of the program, over a model that has given its eager answers."""
    from exporter.models.methods import build_methods
    from exporter.weights.quantize import keep_integers_only
    from exporter.weights.torchao_form import plain_tensors

    if plan.recipe.attention == "fused":
        keep_integers_only(model)
    elif plan.recipe.quantize != "none":
        plain_tensors(model)
    return build_methods(model, plan, plan.recipe.attention, front_end)


def _stages(planned: Planned, front_end: FrontEnd | None) -> Stages:
    """The rungs below the bundle, made afresh: only a bundle that differs needs them."""
    from exporter.trace.methods import program_methods
    from exporter.trace.trace import trace_methods
    from exporter.verify.parity import Stages

    modules = _modules(_load(planned, SilentProgress()), planned.plan, front_end)
    return Stages(modules, trace_methods(modules, program_methods(planned.plan, front_end)))


def lower_programs(
    traced: dict[str, ExportedProgram], plan: CapacityPlan, aside: Path, progress: Progress
) -> tuple[LoweredProgram, ...]:
    """One program file in `aside` for each backend of the plan. The fused form takes the weights out of `traced`."""
    from exporter.lower.executorch import lower_to_executorch
    from exporter.lower.executorch_rows import with_row_operators
    from exporter.lower.executorch_weights import with_stored_weights

    if plan.recipe.attention == "fused":
        progress.stage("storing weights")
        traced = {name: with_row_operators(program) for name, program in traced.items()}
        traced = with_stored_weights(traced, FLOAT_BITS[plan.recipe.dtype])
    programs = []
    for backend in plan.recipe.backends:
        progress.stage(f"lowering to {backend}")
        path = aside / f"model.{backend}.pte"
        programs.append(lower_to_executorch(traced, backend, plan.recipe.attention, path))
    return tuple(programs)
