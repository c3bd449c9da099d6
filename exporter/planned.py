"""Everything about an export that is decided before a weight is read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING

from exporter.spec.assistant import AssistantSpec, is_assistant
from exporter.spec.capacity_plan import CapacityPlan
from exporter.spec.draft import MTP, assistant_name, draft_recipe
from exporter.spec.faults import PlanError, SpecError, raise_if_any
from exporter.spec.hearing import require_known_sound
from exporter.spec.memory_budget import require_budget
from exporter.spec.model_source import ModelSource, resolve_source
from exporter.spec.model_spec import ModelSpec
from exporter.spec.recipe import Recipe
from recipes.geometries.index import HUB_IDS
from runtime_shims.contract.manifest_rules import SELF_INT4
from runtime_shims.contract.onnx_names import RUNTIME
from runtime_shims.reference.onnx_sessions import is_older

if TYPE_CHECKING:
    from exporter.bundle.token_rules import Rules


@dataclass(frozen=True)
class Planned:
    """A model that has been looked at and fits, before its weights are read.

    `draft` is what drafts for it. A draft (`is_draft`) has no tokenizer of its own and is given features. `assistant`
    drafts too, in the same program.
    """

    source: ModelSource
    spec: ModelSpec
    plan: CapacityPlan
    rules: Rules
    max_memory_bytes: int | None = None
    draft: Planned | None = None
    is_draft: bool = False
    assistant: ModelSource | None = None

    @property
    def draft_plan(self) -> CapacityPlan | None:
        return None if self.draft is None else self.draft.plan

    @property
    def draft_name(self) -> str | None:
        """`self-int4`, or the name of the other model; never a path of this machine."""
        asked = self.plan.recipe.draft
        if self.assistant is not None:
            return self.assistant.name
        return asked if self.draft is None or asked == SELF_INT4 else self.draft.source.name


def plan_export(recipe: Recipe, *, max_memory_bytes: int | None = None, greedy: bool = False) -> Planned:
    """Look at the model, and at the one that drafts for it, and decide all that can be before weights are read.

    Raises:
        SpecError: a recipe, model, plan or generation setting that is refused; one line.
    """
    recipe = _with_attention(recipe)
    assistant = None if recipe.draft in (None, SELF_INT4) else _assistant_source(recipe)
    target = _plan_model(recipe, max_memory_bytes, greedy, assistant)
    if recipe.draft is None or assistant is not None:
        return target
    draft = _plan_draft(target, recipe, recipe.draft, greedy)
    require_budget(target.plan, max_memory_bytes, draft.plan)
    return replace(target, draft=draft)


def _assistant_source(recipe: Recipe) -> ModelSource | None:
    """The assistant that `--draft` names; None for a model that can stand on its own.

    Raises:
        SpecError: names the option and what is wrong with the model.
    """
    name = str(recipe.draft)
    if name == MTP:
        name = assistant_name(HUB_IDS.get(recipe.model.lower(), recipe.model))
    try:
        source = resolve_source(replace(recipe, model=name, draft=None))
        return source if is_assistant(source.load_config()) else None
    except SpecError as error:
        raise SpecError(f"--draft {recipe.draft}", [str(error)]) from error


def _plan_model(
    recipe: Recipe, max_memory_bytes: int | None, greedy: bool, assistant: ModelSource | None = None
) -> Planned:
    from exporter.bundle.token_rules import rules_from

    source = resolve_source(recipe)
    config = source.load_config()
    spec = ModelSpec.from_config(config)
    if spec.encoder is not None and spec.encoder.sound is not None:
        require_known_sound(recipe.model, source.load_processor(), config, spec.encoder.sound)
    helper = None if assistant is None else AssistantSpec.from_config(assistant.load_config(), spec)
    plan = CapacityPlan.build(spec, recipe.resolve(spec), max_memory_bytes=max_memory_bytes, assistant=helper)
    rules = rules_from(source.load_generation_config(), spec, plan.recipe.max_dec, greedy=greedy)
    _require_room_for(len(rules.tokens.start), plan)
    return Planned(source, spec, plan, rules, max_memory_bytes, assistant=assistant)


def _plan_draft(target: Planned, recipe: Recipe, name: str, greedy: bool) -> Planned:
    """The plan of the draft `name`, once it is known to mean the same by a token as `target`.

    Raises:
        SpecError: names the option and everything in which the models differ and must not.
    """
    try:
        draft = _plan_model(draft_recipe(recipe, name, target.plan.recipe), None, greedy)
    except SpecError as error:
        raise SpecError(f"--draft {name}", [str(error)]) from error
    ours, theirs = target.plan, draft.plan
    facts = {
        "kind": (ours.kind, theirs.kind),
        "vocabulary size": (ours.vocab_size, theirs.vocab_size),
        "end-of-sequence tokens": (sorted(target.rules.tokens.eos), sorted(draft.rules.tokens.eos)),
        "start tokens": (list(target.rules.tokens.start), list(draft.rules.tokens.start)),
        "shape of the sound": (ours.source_shape or ours.sound, theirs.source_shape or theirs.sound),
    }
    faults = [f"{what} {found} instead of {wanted}" for what, (wanted, found) in facts.items() if found != wanted]
    raise_if_any(PlanError, f"--draft {name} cannot draft for {target.plan.recipe.model}", faults)
    if name != SELF_INT4:
        from exporter.bundle.draft_tokenizer import require_same_tokenizer

        require_same_tokenizer(target.source, draft.source)
    return replace(draft, is_draft=True)


def _require_room_for(start_tokens: int, plan: CapacityPlan) -> None:
    """Raise PlanError when the decoder cannot even hold the tokens that every request begins with."""
    if start_tokens > plan.recipe.max_dec:
        fault = f"--max-dec {plan.recipe.max_dec} does not hold the decoder's {start_tokens} start tokens"
        raise PlanError(plan.recipe.model, [f"{fault}; use at least {start_tokens}"])


def _with_attention(recipe: Recipe) -> Recipe:
    """Decide the operator's spelling: the kernel where it is installed, core operators elsewhere and beside ONNX.

    Raises:
        PlanError: the kernel or ONNX was asked for and is not installed.
    """
    from runtime_shims.native import operator_library_path

    installed = operator_library_path() is not None
    if "onnx" in recipe.backends:
        _require_onnx()
        return replace(recipe, attention="portable")
    if recipe.attention is None:
        return replace(recipe, attention="fused" if installed else "portable")
    if recipe.attention == "fused" and not installed:
        fault = "the C++ operator library is not installed; reinstall with a C++20 compiler"
        raise PlanError("--attention fused", [f"{fault}, or use --attention portable"])
    return recipe


def _require_onnx() -> None:
    """Raise PlanError naming the packages of the extra `onnx` that are not installed."""
    missing = [name for name in ("onnxscript", "onnxruntime") if find_spec(name) is None]
    if missing:
        fault = f"{' and '.join(missing)} not installed; install fixed-capacity[onnx], or use another backend"
        raise PlanError("--backend onnx", [fault])
    installed = version("onnxruntime")
    if is_older(installed, RUNTIME):
        fault = f"onnxruntime {installed} is too old to check what is exported; install onnxruntime {RUNTIME} or later"
        raise PlanError("--backend onnx", [fault])
