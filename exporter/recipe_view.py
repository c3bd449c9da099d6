"""The named recipes for people (a table, or all about one of them) and for programs (JSON)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from exporter.plan_view import MODEL_KIND_NAMES
from exporter.recipe_plans import DevicePlan, RecipePlans
from exporter.spec.deployment import Device
from runtime_shims.contract.formatting import format_bytes
from runtime_shims.contract.manifest import ResolvedRecipe

CELL_WIDTH = 17
LEGEND = (
    "memory: weights, caches and logits, planned from published geometries; what a step computes comes on top\n"
    "limits: rows x (encoder ->) decoder positions, in all of which a smaller request fits"
)


def render_recipes(recipes: Sequence[RecipePlans]) -> RenderableType:
    """One entry for each recipe, and for each class of device its memory, limits and weights."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("recipe, its model, what for")
    for planned in recipes[0].on_devices:
        table.add_column(f"{planned.device.name}, {format_bytes(planned.device.memory_bytes)}", width=CELL_WIDTH)
    kind = None
    for recipe in recipes:
        if recipe.kind != kind:
            kind = recipe.kind
            table.add_row(Text(f"\n{MODEL_KIND_NAMES[kind]}", style="italic"))
        table.add_row(_title(recipe), *(_cell(planned) for planned in recipe.on_devices))
    devices = Text("\n".join(device_line(planned.device) for planned in recipes[0].on_devices), style="dim")
    return Group(table, Text(), Text(LEGEND, style="dim"), devices)


def render_recipe(recipe: RecipePlans) -> RenderableType:
    """All about one recipe: what it is, and its numbers on each class of device, with the command that exports it."""
    facts = f"{recipe.model}  {MODEL_KIND_NAMES[recipe.kind]}, {recipe.parameter_count / 1e6:,.1f} M parameters"
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column()
    for planned in recipe.on_devices:
        table.add_column(planned.device.name, justify="right")
    for name, *values in _rows(recipe.on_devices):
        table.add_row(name, *values)
    commands = Text("\n".join(export_command(recipe, planned.device) for planned in recipe.on_devices))
    title = Text.assemble((recipe.name, "bold"), f"  {facts}\n{recipe.purpose}\n")
    return Group(title, table, Text(), commands)


def recipes_json(recipes: Iterable[RecipePlans]) -> list[dict[str, Any]]:
    """Everything that the tables show, in plain JSON types; sizes are bytes."""
    return [
        {
            "name": recipe.name,
            "model": recipe.model,
            "purpose": recipe.purpose,
            "kind": recipe.kind,
            "parameter_count": recipe.parameter_count,
            "greedy": recipe.deployment.greedy,
            "devices": {planned.device.name: _device_json(recipe, planned) for planned in recipe.on_devices},
        }
        for recipe in recipes
    ]


def memory_text(planned: DevicePlan) -> str:
    """The memory, and where it is too much: that it is."""
    size = format_bytes(planned.total_bytes)
    return size if planned.fits else f"too large: {size}"


def limits_text(recipe: ResolvedRecipe) -> str:
    """`8 x 512 -> 256`, or without an encoder `1 x 2048`."""
    encoder = "" if recipe.max_enc is None else f"{recipe.max_enc} -> "
    return f"{recipe.max_batch} x {encoder}{recipe.max_dec}"


def weights_text(recipe: ResolvedRecipe) -> str:
    """The form of weights, and what drafts: `8da8w + mtp`."""
    form = recipe.dtype if recipe.quantize == "none" else recipe.quantize
    bits = f", embedding {recipe.embedding_bits} bits" if recipe.embedding_bits == 4 else ""
    return f"{form}{bits}" + ("" if recipe.draft is None else f" + {recipe.draft}")


def device_line(device: Device) -> str:
    """What a class of device stands for."""
    return f"{device.name}: {device.stands_for}"


def export_command(recipe: RecipePlans, device: Device) -> str:
    """What exports this recipe for that device."""
    return f"export-model --recipe {recipe.name} --device {device.name}"


def _title(recipe: RecipePlans) -> RenderableType:
    below = Text.assemble((recipe.model, "dim"), f"\n{recipe.purpose}")
    return Group(Text(recipe.name, style="bold"), Padding(below, (0, 0, 0, 2)))


def _cell(planned: DevicePlan) -> Text:
    recipe = planned.plan.recipe
    memory = (memory_text(planned), "" if planned.fits else "red")
    return Text.assemble(memory, f"\n{limits_text(recipe)}\n", (weights_text(recipe), "dim"))


def _rows(plans: Sequence[DevicePlan]) -> Iterator[tuple[str, ...]]:
    """The name of a value, and the value on each device."""
    recipes = [planned.plan.recipe for planned in plans]
    yield "limits", *(limits_text(recipe) for recipe in recipes)
    yield "prompt tokens a step", *(str(recipe.prefill_chunk) for recipe in recipes)
    yield "drafts verified", *(str(recipe.max_draft) for recipe in recipes)
    yield "form of weights", *(weights_text(recipe) for recipe in recipes)
    yield "form of caches", *(planned.plan.self_caches[0].dtype for planned in plans)
    yield "weights", *(format_bytes(planned.plan.weights_bytes) for planned in plans)
    yield "caches", *(format_bytes(planned.plan.cache_bytes) for planned in plans)
    yield "logits", *(format_bytes(planned.plan.logits_bytes) for planned in plans)
    if any(planned.draft is not None for planned in plans):
        yield "draft", *("" if one.draft is None else format_bytes(one.draft.total_bytes) for one in plans)
    yield "total before activations", *(memory_text(planned) for planned in plans)
    yield "of", *(format_bytes(planned.device.memory_bytes) for planned in plans)


def _device_json(recipe: RecipePlans, planned: DevicePlan) -> dict[str, Any]:
    plan = planned.plan
    return {
        "recipe": asdict(plan.recipe),
        "limits": asdict(plan.limits()),
        "memory": {
            "weights_bytes": plan.weights_bytes,
            "cache_bytes": plan.cache_bytes,
            "logits_bytes": plan.logits_bytes,
            "draft_bytes": 0 if planned.draft is None else planned.draft.total_bytes,
            "total_bytes": planned.total_bytes,
            "budget_bytes": planned.device.memory_bytes,
        },
        "fits": planned.fits,
        "command": export_command(recipe, planned.device),
    }
