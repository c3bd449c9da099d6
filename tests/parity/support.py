"""Sessions over tiny models at every rung of the ladder, and what stock transformers answers.

A rung is what runs behind the runtime's `Session`: the method modules in eager PyTorch ("cached"), their
traced programs ("traced"), or the program file ("lowered"). All are made as the pipeline makes them; the
manifest of a rung without a program file names one that does not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from exporter.bundle.golden import answer_row
from exporter.bundle.manifest_builder import Exported, build_manifest
from exporter.bundle.token_rules import Rules, rules_from
from exporter.bundle.writer import file_entries, write_manifest
from exporter.cache.spellings import spelling_of
from exporter.lower.program_file import LoweredProgram
from exporter.models.methods import build_methods
from exporter.models.speech_features import FrontEnd, front_end_of
from exporter.pipeline import lower_programs
from exporter.spec.assistant import AssistantSpec
from exporter.spec.capacity_plan import CapacityPlan, PlannedCache
from exporter.spec.model_location import ModelLocation
from exporter.spec.model_source import ModelSource
from exporter.spec.model_spec import ModelSpec
from exporter.spec.progress import SilentProgress
from exporter.spec.recipe import Recipe
from exporter.spec.text_part import drop_image_tower
from exporter.trace.functional import runnable
from exporter.trace.methods import program_methods
from exporter.trace.trace import ExportedProgram, trace_methods
from exporter.verify.parity import ModuleProgram
from runtime_shims.contract.bundle_reader import Bundle
from runtime_shims.contract.cache_geometry import CacheGeometry
from runtime_shims.contract.manifest import FileEntry, Manifest, TokenRules
from runtime_shims.reference.request import SourceInput
from runtime_shims.reference.session import Session
from tests.support.tiny_models import CASES, HEARS_SOUND, build, build_assistant, extractor, stock_input

WRONG = 0.1  # a wrong read moves a logit by this much or more; the table allows less than 0.01 everywhere
NO_FILE = "0" * 64
Drafter = Literal["plain", "clustered"] | None
ASSISTANTS = {"plain": build_assistant, "clustered": partial(build_assistant, clustered=True)}
Geometry = Callable[[CacheGeometry], CacheGeometry]


@dataclass(frozen=True)
class Capacity:
    """The limits of a test's export. `max_enc` is given to encoders of any length; features have their own."""

    max_batch: int = 4
    max_enc: int = 24
    max_dec: int = 120
    max_draft: int = 3
    prefill_chunk: int = 5

    def recipe(self, case: str, attention: str, backend: str = "xnnpack") -> Recipe:
        return Recipe(
            model=f"tiny-{case}",
            max_batch=self.max_batch,
            max_enc=self.max_enc if CASES[case].kind == "text_seq2seq" or case in HEARS_SOUND else None,
            max_dec=self.max_dec,
            max_draft=self.max_draft,
            prefill_chunk=self.prefill_chunk,
            backends=(backend,),
            attention=attention,  # type: ignore[arg-type]
        )


DEFAULT = Capacity()


@dataclass(frozen=True)
class Planned:
    """A tiny model that has been planned: everything an export knows before it builds methods."""

    case: str
    model: PreTrainedModel
    spec: ModelSpec
    plan: CapacityPlan
    rules: Rules
    drafter: Drafter = None

    @classmethod
    def of(
        cls,
        case: str,
        attention: str,
        capacity: Capacity = DEFAULT,
        *,
        backend: str = "xnnpack",
        geometry: Geometry | None = None,
        drafter: Drafter = None,
    ) -> Planned:
        """Plan `case` as the pipeline does, with an assistant if `drafter` says which.

        `geometry` replaces self-attention geometries (for controls).

        `attention` may be `onnx`: the spelling of that backend.
        """
        if attention == "onnx":
            attention, backend = "portable", "onnx"
        model = build(case)
        drop_image_tower(model)
        spec = ModelSpec.from_config(model.config)
        helper = None if drafter is None else AssistantSpec.from_config(ASSISTANTS[drafter]().config, spec)
        plan = CapacityPlan.build(spec, capacity.recipe(case, attention, backend).resolve(spec), assistant=helper)
        if geometry is not None:
            caches = tuple(with_geometry(cache, geometry(cache.geometry)) for cache in plan.self_caches)
            plan = replace(plan, self_caches=caches)
        rules = rules_from(model.generation_config, spec, plan.recipe.max_dec)
        return cls(case, model, spec, plan, rules, drafter)

    def exported(self, programs: tuple[LoweredProgram, ...]) -> Exported:
        source = ModelSource(self.plan.recipe.model, ModelLocation(f"tiny-{self.case}"), False, 0)
        methods = program_methods(self.plan, self.front_end)
        return Exported(source, self.spec, self.plan, self.rules, methods, programs, self.front_end)

    def manifest(self) -> Manifest:
        """The manifest of a bundle whose program was not lowered."""
        recipe = self.plan.recipe
        path = Path(f"model.{recipe.backends[0]}.pte")
        program = LoweredProgram(path, recipe.backends[0], recipe.attention, 0, self.plan.cache_bytes)
        files = (FileEntry(path.name, "program", NO_FILE, 0),)
        return build_manifest(self.exported((program,)), files)

    def session(self, methods: dict[str, nn.Module]) -> Session:
        """A session over methods that are Python callables."""
        return Session(Bundle(Path("."), self.manifest()), ModuleProgram(methods))

    @cached_property
    def front_end(self) -> FrontEnd | None:
        return None if self.plan.source_shape is None else front_end_of(extractor(), self.plan.source_shape)

    @cached_property
    def methods(self) -> dict[str, nn.Module]:
        """The method modules; building them turns `model` from a stock model into the exported one."""
        recipe = self.plan.recipe
        spelling = spelling_of(recipe.backends[0], recipe.attention)
        assistant = None if self.drafter is None else ASSISTANTS[self.drafter]()
        return build_methods(self.model, self.plan, spelling, self.front_end, assistant)

    @cached_property
    def traced(self) -> dict[str, ExportedProgram]:
        return trace_methods(self.methods, program_methods(self.plan, self.front_end))

    def lower(self, directory: Path) -> None:
        """Write a bundle of one program to `directory`, from a model of its own: lowering takes its weights."""
        model = build(self.case)
        drop_image_tower(model)
        traced = replace(self, model=model).traced
        methods, backends = program_methods(self.plan, self.front_end), self.plan.recipe.backends
        programs = lower_programs(traced, methods, backends, self.plan, directory, SilentProgress())
        write_manifest(directory, build_manifest(self.exported(programs), file_entries(directory)))


def with_geometry(cache: PlannedCache, geometry: CacheGeometry) -> PlannedCache:
    """The cache over another geometry, whose reach is the window of a layer that has one."""
    return replace(cache, geometry=geometry, window=None if cache.window is None else geometry.reach)


def module_session(
    case: str, attention: str, capacity: Capacity = DEFAULT, *, geometry: Geometry | None = None
) -> Session:
    """The cached rung: a session over the method modules, caches included."""
    planned = Planned.of(case, attention, capacity, geometry=geometry)
    return planned.session(planned.methods)


def traced_session(planned: Planned) -> Session:
    """The traced rung: a session over the exported programs, run by PyTorch over the modules' own caches."""
    methods = planned.methods
    return planned.session({name: runnable(name, program, methods[name]) for name, program in planned.traced.items()})


class StockModel:
    """A tiny model as transformers made it: one unpadded row at a time, no capacity, caches of exact size."""

    def __init__(self, case: str) -> None:
        self.case = case
        self.model = build(case)
        self.spec = ModelSpec.from_config(self.model.config)

    def in_double(self) -> None:
        """From now on the model computes in float64; products of experts by group have no kernel for it."""
        self.model.double()
        if self.model._can_set_experts_implementation():
            self.model.set_experts_implementation("eager")

    def rules(self, max_dec: int) -> TokenRules:
        return rules_from(self.model.generation_config, self.spec, max_dec).tokens

    @property
    def start(self) -> tuple[int, ...]:
        """The decoder prompt; one token for decoder-only models, which have none of their own."""
        return self.rules(100).start or (5,)

    def logits_TV(self, text: Sequence[int], source: SourceInput | None = None) -> Tensor:
        """Logits of every position of one row in one forward pass without a cache."""
        tokens = torch.tensor([list(text)])
        with torch.no_grad():
            if source is None:
                return self.model(input_ids=tokens).logits[0].float()
            name = self.model.get_encoder().main_input_name
            values = self.heard(source) if isinstance(source, Tensor) else torch.tensor([list(source)])
            return self.model(**{name: values}, decoder_input_ids=tokens).logits[0].float()

    def heard(self, source: Tensor) -> Tensor:
        """The encoder's input for one row of features or sound, in the row's precision."""
        if self.case not in HEARS_SOUND:
            return source[None]
        return stock_input(self.case, source.float()).to(source.dtype)

    def greedy(
        self, prompt: Sequence[int], source: SourceInput | None, budget: int, rules: TokenRules
    ) -> tuple[int, ...]:
        """Greedy tokens of one row, the end of sequence included."""
        features = self.heard(source) if isinstance(source, Tensor) else None
        ids = None if source is None or features is not None else tuple(source)
        tokens, _ = answer_row(self.model, tuple(prompt), ids, features, rules, budget)
        return tokens
