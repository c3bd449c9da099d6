"""What `--recipe NAME` and `--device CLASS` stand for, and how the other options change it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from exporter.spec.deployment import DEVICE_NAMES, Device
from exporter.spec.faults import PlanError, RecipeError
from exporter.spec.recipe import Recipe
from recipes.devices import DEVICES
from recipes.geometries.index import HUB_IDS
from recipes.index import RECIPES

NO_DRAFT = "none"
_ALL = "--list-recipes shows all"
_ADVICE = "give an option to replace what the recipe chose"


@dataclass(frozen=True)
class Chosen:
    """A recipe, whether it decodes greedily whatever its checkpoint asks for, and the device that it must fit."""

    recipe: Recipe
    greedy: bool = False
    device: Device | None = None
    name: str | None = None

    @property
    def memory_bytes(self) -> int | None:
        """What the device has for it; None where no device is meant."""
        return None if self.device is None else self.device.memory_bytes


def chosen_recipe(name: str | None, device: str | None, given: Mapping[str, Any]) -> Chosen:
    """The named recipe, or none, with every given value in place of its own.

    Args:
        given: fields of `Recipe` that options set.

    Raises:
        RecipeError: one line: a name or a device that is not known, or one without the other.
    """
    changes = dict(given)
    if changes.get("draft") == NO_DRAFT:
        changes["draft"] = None
    if name is None:
        return _without_name(device, changes)
    make = RECIPES[known_recipe(str(name))]
    on = None if device is None else known_device(str(device))
    deployment = make()
    recipe = deployment.on(None if on is None else on.name)
    if changes.get("quantize", recipe.quantize) != recipe.quantize:
        changes = {"embedding_bits": None, "group_size": None, **changes}
    try:
        return Chosen(replace(recipe, **changes), deployment.greedy, on, name)
    except RecipeError as error:
        subject = f"recipe {name}" if on is None else f"recipe {name} for a {on.name}"
        raise RecipeError(subject, [*error.faults, _ADVICE]) from error


@contextmanager
def said_of(chosen: Chosen) -> Iterator[None]:
    """Name the recipe and the device in a refusal of its plan: no option may have said what is refused."""
    try:
        yield
    except PlanError as error:
        if chosen.name is None:
            raise
        on = "" if chosen.device is None else f" for a {chosen.device.name}"
        raise PlanError(f"recipe {chosen.name}{on}, {error.subject}", [*error.faults, _ADVICE]) from error


def known_recipe(name: str) -> str:
    """`name`, or RecipeError with the names that come closest."""
    if name in RECIPES:
        return name
    close = _named_like(name)
    advice = f"did you mean {' or '.join(close)}? {_ALL}" if close else _ALL
    raise RecipeError("recipe", [f"--recipe {name} is unknown; {advice}"])


def known_device(name: str) -> Device:
    """The class of device of that name, or RecipeError with those that there are."""
    for known in DEVICE_NAMES:
        if name == known:
            return DEVICES[known]
    fault = f"--device {name} is unknown; available: {', '.join(DEVICE_NAMES)}"
    raise RecipeError("recipe", [f"{fault} (what the bundle is meant for, not a processor)"])


def _without_name(device: str | None, changes: dict[str, Any]) -> Chosen:
    model = changes.get("model")
    if device is not None:
        close = [] if model is None else _named_like(str(model))
        advice = f"add --recipe {close[0]}" if close else f"add --recipe NAME ({_ALL})"
        raise RecipeError("recipe", [f"--device {device} chooses among the values of a named recipe; {advice}"])
    if model is None:
        raise RecipeError("recipe", ["give a MODEL, or a named recipe with --recipe (see --list-recipes)"])
    return Chosen(Recipe(**changes))


def _named_like(name: str) -> list[str]:
    """Recipes of this Hub id, or whose names look like its last part."""
    given = name.lower()
    of_model = [known for known in RECIPES if HUB_IDS[known].lower() == given]
    return of_model or get_close_matches(given.rpartition("/")[2], RECIPES, n=3)
