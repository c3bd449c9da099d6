"""Rows of the tables: what `export-model --list-recipes` shows, in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from exporter.plan_view import MODEL_KIND_NAMES
from exporter.recipe_plans import DevicePlan, RecipePlans, planned_recipe
from exporter.recipe_view import limits_text, memory_text, weights_text
from recipes.devices import DEVICES
from recipes.index import RECIPES
from runtime_shims.contract.formatting import format_bytes
from tests.families.table import table

PAGE = Path(__file__).parents[2] / "docs" / "recipes.md"
BEGIN, END = "<!-- make recipes-table: begin -->", "<!-- make recipes-table: end -->"


def block() -> str:
    """Everything between the marks, marks included."""
    recipes = [planned_recipe(name) for name in RECIPES]
    parts = [BEGIN, device_table()]
    for kind in dict.fromkeys(recipe.kind for recipe in recipes):
        parts.append(f"## {MODEL_KIND_NAMES[kind].capitalize()} models")
        parts.append(recipe_table([recipe for recipe in recipes if recipe.kind == kind]))
    return "\n\n".join((*parts, END))


def device_table() -> str:
    """What each class of device stands for, and what a model may take there."""
    rows = [(f"`{name}`", device.stands_for, format_bytes(device.memory_bytes)) for name, device in DEVICES.items()]
    return table(("`--device`", "stands for", "memory for one model"), rows)


def recipe_table(recipes: Sequence[RecipePlans]) -> str:
    """One row for each recipe."""
    headings = ("`--recipe`", "model", "what for", "parameters", *DEVICES)
    return table(headings, [recipe_row(recipe) for recipe in recipes])


def recipe_row(recipe: RecipePlans) -> tuple[str, ...]:
    count = f"{recipe.parameter_count / 1e6:,.1f} M"
    cells = (device_cell(planned) for planned in recipe.on_devices)
    return (f"`{recipe.name}`", recipe.model, recipe.purpose.removesuffix("."), count, *cells)


def device_cell(planned: DevicePlan) -> str:
    recipe = planned.plan.recipe
    memory = memory_text(planned)
    return f"{memory if planned.fits else f'**{memory}**'}, {limits_text(recipe)}, {weights_text(recipe)}"


def with_block(text: str) -> str:
    """A document with the tables of today between its marks."""
    before, rest = text.split(BEGIN)
    return before + block() + rest.split(END)[1]
