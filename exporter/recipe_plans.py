"""What the named recipes take on each class of device, planned from published geometries; nothing is read or built."""

from __future__ import annotations

from dataclasses import dataclass, replace

from exporter.spec.assistant import AssistantSpec
from exporter.spec.capacity_plan import CapacityPlan
from exporter.spec.deployment import Deployment, Device
from exporter.spec.draft import MTP, assistant_name, draft_recipe
from exporter.spec.model_source import resolve_source
from exporter.spec.model_spec import ModelSpec
from exporter.spec.recipe import Recipe
from recipes.devices import DEVICES
from recipes.index import RECIPES
from runtime_shims.contract.manifest import ModelKind
from runtime_shims.contract.manifest_rules import SELF_INT4


@dataclass(frozen=True)
class DevicePlan:
    """One recipe on one class of device; `draft` is what drafts in a bundle of its own."""

    device: Device
    plan: CapacityPlan
    draft: CapacityPlan | None

    @property
    def total_bytes(self) -> int:
        """Weights, caches and logits, those of the draft included."""
        return self.plan.total_bytes + (0 if self.draft is None else self.draft.total_bytes)

    @property
    def fits(self) -> bool:
        return self.total_bytes <= self.device.memory_bytes


@dataclass(frozen=True)
class RecipePlans:
    """A named recipe with its plan for each class of device; `purpose` is the first line of its docstring."""

    name: str
    purpose: str
    deployment: Deployment
    on_devices: tuple[DevicePlan, ...]

    @property
    def model(self) -> str:
        return self.deployment.anywhere.model

    @property
    def kind(self) -> ModelKind:
        return self.on_devices[0].plan.kind

    @property
    def parameter_count(self) -> int:
        """Learned values of the model and of its assistant."""
        return self.on_devices[0].plan.parameter_count


def planned_recipe(name: str, devices: tuple[Device, ...] = tuple(DEVICES.values())) -> RecipePlans:
    """Plan the recipe `name`, a key of RECIPES, for some classes of device.

    Raises:
        SpecError: its values do not suit its model.
    """
    make = RECIPES[name]
    deployment = make()
    spec = _spec_of(deployment.anywhere.model)
    purpose = (make.__doc__ or "").strip().partition("\n")[0]
    plans = tuple(_on_device(spec, deployment.on(device.name), device) for device in devices)
    return RecipePlans(name, purpose, deployment, plans)


def _on_device(spec: ModelSpec, recipe: Recipe, device: Device) -> DevicePlan:
    """A recipe's plan with our operators, which a device may have whether this machine has them or not."""
    recipe = replace(recipe, attention=recipe.attention or "fused")
    assistant = _assistant(recipe, spec) if recipe.draft == MTP else None
    plan = CapacityPlan.build(spec, recipe.resolve(spec), assistant=assistant)
    if recipe.draft != SELF_INT4:
        return DevicePlan(device, plan, None)
    draft = draft_recipe(recipe, SELF_INT4, plan.recipe)
    return DevicePlan(device, plan, CapacityPlan.build(spec, draft.resolve(spec)))


def _assistant(recipe: Recipe, spec: ModelSpec) -> AssistantSpec:
    name = assistant_name(recipe.model)
    return AssistantSpec.from_config(resolve_source(Recipe(name, random_weights=True)).load_config(), spec)


def _spec_of(model: str) -> ModelSpec:
    return ModelSpec.from_config(resolve_source(Recipe(model, random_weights=True)).load_config())
