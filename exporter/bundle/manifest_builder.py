"""The manifest of an export, from the plan, the rules and what was lowered."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

from exporter.bundle.token_rules import Rules
from exporter.lower.program_file import LoweredProgram
from exporter.models.speech_features import FrontEnd
from exporter.spec.capacity_plan import CapacityPlan
from exporter.spec.model_source import ModelSource
from exporter.spec.model_spec import ModelSpec
from exporter.trace.methods import Axis, Method, MethodInput
from runtime_shims.contract.manifest import (
    FORMAT_VERSION,
    Assistant,
    Dim,
    FileEntry,
    Manifest,
    MemoryPlan,
    MethodEntry,
    PackageVersion,
    ProgramEntry,
    ResolvedRecipe,
    Source,
    Speech,
    TensorEntry,
)

PACKAGES = ("fixed-capacity", "torch", "executorch", "transformers")
ONNX_PACKAGES = ("onnx", "onnxscript")


@dataclass(frozen=True)
class Exported:
    """Everything an export produced, before it becomes a bundle."""

    source: ModelSource
    spec: ModelSpec
    plan: CapacityPlan
    rules: Rules
    methods: tuple[Method, ...]
    programs: tuple[LoweredProgram, ...]
    front_end: FrontEnd | None = None
    draft_name: str | None = None


def build_manifest(exported: Exported, files: tuple[FileEntry, ...]) -> Manifest:
    """The manifest over `files`."""
    plan, spec = exported.plan, exported.spec
    return Manifest(
        format_version=FORMAT_VERSION,
        kind=plan.kind,
        source=_source(exported.source, spec),
        recipe=_named(plan.recipe, exported),
        limits=plan.limits(),
        speech=_speech(exported),
        assistant=None if plan.assistant is None else Assistant(plan.assistant.hidden_size),
        caches=plan.entries(),
        programs=tuple(_program(program, exported) for program in exported.programs),
        tokens=exported.rules.tokens,
        generation=exported.rules.generation,
        quantization=plan.recipe.quantize,
        memory=memory_plan(plan, exported.programs),
        packages=tuple(PackageVersion(name, version(name)) for name in packages_of(plan.recipe)),
        files=files,
    )


def packages_of(recipe: ResolvedRecipe) -> tuple[str, ...]:
    """The packages that made the programs of a recipe."""
    return (*PACKAGES, *ONNX_PACKAGES) if "onnx" in recipe.backends else PACKAGES


def memory_plan(plan: CapacityPlan, programs: tuple[LoweredProgram, ...]) -> MemoryPlan:
    """Bytes of the program that needs most; programs of a bundle are never loaded together."""
    planned = max(program.planned_bytes for program in programs)
    note = (
        "planned_bytes is the largest program's arenas: caches, logits and activations, shared by its "
        "methods. Weights are mapped from the file or packed once more by the backend; backend workspaces "
        "are not counted."
    )
    if any(program.backend == "onnx" for program in programs):
        note += " Of an ONNX program it is caches and logits: the runtime takes memory for activations as it runs."
    return MemoryPlan(
        weights_bytes=plan.weights_bytes,
        cache_bytes=plan.cache_bytes,
        activation_bytes=max(0, planned - plan.cache_bytes),
        planned_bytes=planned,
        note=note,
    )


def _named(recipe: ResolvedRecipe, exported: Exported) -> ResolvedRecipe:
    """The recipe with names of models, never paths of the exporting machine."""
    return replace(recipe, model=exported.source.name, draft=exported.draft_name)


def _speech(exported: Exported) -> Speech | None:
    front_end = exported.front_end
    return exported.plan.speech if front_end is None else Speech(front_end.sampling_rate, front_end.samples, None)


def _source(source: ModelSource, spec: ModelSpec) -> Source:
    return Source(
        model=source.name,
        revision=source.revision,
        model_type=spec.model_type,
        architecture=spec.architecture,
        random_weights=source.random_weights,
        seed=source.seed if source.random_weights else None,
        parameter_count=spec.parameter_count,
        vocab_size=spec.vocab_size,
    )


def _program(program: LoweredProgram, exported: Exported) -> ProgramEntry:
    return ProgramEntry(
        file=Path(program.path).name,
        format="onnx" if program.backend == "onnx" else "executorch",
        backend=program.backend,
        attention=program.attention,
        operator_library_required=program.attention == "fused",
        methods=tuple(_method(method) for method in exported.methods),
        planned_bytes=program.planned_bytes,
        weights_bytes=exported.plan.weights_bytes,
    )


def _method(method: Method) -> MethodEntry:
    return MethodEntry(
        name=method.name,
        inputs=tuple(_tensor(tensor) for tensor in method.inputs),
        outputs=tuple(_tensor(tensor) for tensor in method.outputs),
    )


def _tensor(tensor: MethodInput) -> TensorEntry:
    return TensorEntry(
        name=tensor.name,
        dtype=str(tensor.dtype).removeprefix("torch."),
        dims=tuple(_dim(axis) for axis in tensor.axes),
    )


def _dim(axis: Axis) -> Dim:
    if axis.is_dynamic:
        return Dim(name=axis.name, minimum=axis.minimum, maximum=axis.maximum)
    return Dim(name=None, minimum=axis.maximum, maximum=axis.maximum)
