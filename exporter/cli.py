"""`export-model`: make a bundle from the command line.

Options only: what they mean is decided by `Recipe`, what they cost by `CapacityPlan`, and what happens by
`pipeline`. Nothing here imports torch or transformers before a model is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from exporter import cli_options as options
from exporter.cli_output import (
    ConsoleProgress,
    print_plan,
    print_recipes,
    print_report,
    quiet_libraries,
)
from exporter.named_recipes import chosen_recipe, known_device, known_recipe, said_of
from exporter.recipe_plans import RecipePlans, planned_recipe
from exporter.spec.faults import RecipeError
from exporter.spec.memory import parse_bytes
from exporter.spec.recipe import Recipe
from recipes.devices import DEVICES
from recipes.index import RECIPES
from runtime_shims.commands.common import print_version
from runtime_shims.console import run_app

NAME = "export-model"
HELP = """Export a Hugging Face model to a bundle whose caches have a fixed capacity.

MODEL is a Hub id (t5-small is google-t5/t5-small), a checkpoint directory, a .gguf file, or a known name
with --random-weights: its published geometry with seeded weights. Local models need no network.

[bold]Examples[/bold]

[dim]Eight texts of up to 512 tokens at once:[/dim]

  export-model t5-small --max-batch 8 --max-enc 512 --max-dec 256

[dim]A local checkpoint, with a second program without XNNPACK:[/dim]

  export-model ./checkpoint --backend xnnpack --backend portable -o my.bundle

[dim]What would it cost? (seconds, no download):[/dim]

  export-model gemma-3-270m --random-weights --max-dec 8192 --plan-only

[dim]Speech, from a named recipe:[/dim]

  export-model --recipe whisper-tiny.en

[dim]The same with the limits and weights for a phone; which recipes are there, and what do they take?[/dim]

  export-model --recipe whisper-tiny.en --device phone
  export-model --list-recipes
"""


Check = Callable[[Recipe], None]
"""Looks at a recipe before anything is planned; refuses it by raising SpecError."""


def make_app(check: Check | None = None) -> typer.Typer:
    """The application: one command. `check` is asked first, for command lines that have more to ask."""
    app = typer.Typer(
        name=NAME,
        add_completion=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"], "obj": check},
    )
    app.command(help=HELP)(export_model)
    return app


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of `export-model`; returns the exit code."""
    return run_app(make_app(), NAME, arguments)


def export_model(
    context: typer.Context,
    model: options.ModelArgument = None,
    recipe: options.RecipeOption = None,
    device: options.DeviceOption = None,
    random_weights: options.RandomWeightsOption = False,
    seed: options.SeedOption = None,
    max_batch: options.MaxBatchOption = None,
    max_enc: options.MaxEncOption = None,
    max_dec: options.MaxDecOption = None,
    max_draft: options.MaxDraftOption = None,
    prefill_chunk: options.PrefillChunkOption = None,
    max_memory: options.MaxMemoryOption = None,
    backend: options.BackendOption = None,
    attention: options.AttentionOption = None,
    quantize: options.QuantizeOption = None,
    embedding_bits: options.EmbeddingBitsOption = None,
    group_size: options.GroupSizeOption = None,
    dtype: options.DtypeOption = None,
    index_dtype: options.IndexDtypeOption = None,
    draft: options.DraftOption = None,
    greedy: options.GreedyOption = False,
    output: options.OutputOption = None,
    force: options.ForceOption = False,
    plan_only: options.PlanOnlyOption = False,
    no_verify: options.NoVerifyOption = False,
    json: options.JsonOption = False,
    debug: options.DebugOption = False,
    list_recipes: options.ListRecipesOption = False,
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Build the recipe from the options, then list, plan or export it."""
    if not debug:
        quiet_libraries()
    given = _given(
        model=model,
        random_weights=random_weights or None,
        seed=seed,
        max_batch=max_batch,
        max_enc=max_enc,
        max_dec=max_dec,
        max_draft=max_draft,
        prefill_chunk=prefill_chunk,
        backends=tuple(backend) if backend else None,
        attention=attention,
        quantize=quantize,
        embedding_bits=embedding_bits,
        group_size=group_size,
        dtype=dtype,
        index_dtype=index_dtype,
        draft=draft,
    )
    if list_recipes:
        others = {"max_memory": max_memory, "greedy": greedy, "output": output, "force": force}
        others |= {"plan_only": plan_only, "no_verify": no_verify}
        given |= {name: value for name, value in others.items() if value}
        print_recipes(_listed(recipe, device, given), as_json=json)
        return
    chosen = chosen_recipe(recipe, device, given)
    max_memory_bytes = parse_bytes(max_memory) if max_memory is not None else chosen.memory_bytes
    if context.obj is not None:
        context.obj(chosen.recipe)
    if plan_only:
        from exporter.planned import plan_export

        with said_of(chosen):
            planned = plan_export(chosen.recipe, max_memory_bytes=max_memory_bytes, greedy=greedy or chosen.greedy)
        print_plan(planned.plan, planned.draft_plan, as_json=json)
        return
    from exporter.pipeline import export_bundle

    with ConsoleProgress(as_json=json) as progress, said_of(chosen):
        report = export_bundle(
            chosen.recipe,
            output or Path(bundle_name(chosen.recipe.model, device)),
            force=force,
            verify=not no_verify,
            max_memory_bytes=max_memory_bytes,
            greedy=greedy or chosen.greedy,
            progress=progress,
        )
    print_report(report, as_json=json)


def bundle_name(model: str, device: str | None = None) -> str:
    """The default bundle for `model`: `t5-small.bundle` for a Hub id, a directory or a file of that name."""
    path = Path(model).expanduser()
    name = path.resolve().name if path.exists() else model.rstrip("/").rpartition("/")[2]
    return f"{name.removesuffix('.gguf')}{'' if device is None else f'-{device}'}.bundle"


def _given(**options: Any) -> dict[str, Any]:
    """The options that were given, by the fields of `Recipe` that they set."""
    return {field: value for field, value in options.items() if value is not None}


def _listed(recipe: str | None, device: str | None, given: dict[str, Any]) -> list[RecipePlans]:
    """The plans that `--list-recipes` shows: of the recipe named by --recipe or as MODEL, or of all."""
    model = given.pop("model", None)
    name = recipe or model
    if recipe is not None and model is not None:
        raise RecipeError("recipe", [f"{model} is given beside --recipe {recipe}; leave one of them out"])
    if given:
        fault = "--list-recipes takes a recipe, --device and --json alone"
        raise RecipeError("recipe", [f"{fault}; see what other options cost with --plan-only"])
    names = RECIPES if name is None else [known_recipe(name)]
    devices = tuple(DEVICES.values()) if device is None else (known_device(device),)
    return [planned_recipe(one, devices) for one in names]
