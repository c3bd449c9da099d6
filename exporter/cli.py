"""`export-model`: make a bundle from the command line.

Options only: what they mean is decided by `Recipe`, what they cost by `CapacityPlan`, and what happens by
`pipeline`. Nothing here imports torch or transformers before a model is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
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
from exporter.spec.faults import RecipeError
from exporter.spec.memory import parse_bytes
from exporter.spec.recipe import Recipe
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
    list_recipes: Annotated[
        bool, typer.Option("--list-recipes", callback=print_recipes, is_eager=True, help="Print all recipes.")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Build the recipe from the options, then plan it or export it."""
    chosen = _recipe(
        recipe,
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
    max_memory_bytes = None if max_memory is None else parse_bytes(max_memory)
    if not debug:
        quiet_libraries()
    if context.obj is not None:
        context.obj(chosen)
    if plan_only:
        from exporter.planned import plan_export

        planned = plan_export(chosen, max_memory_bytes=max_memory_bytes, greedy=greedy)
        print_plan(planned.plan, planned.draft_plan, as_json=json)
        return
    from exporter.pipeline import export_bundle

    with ConsoleProgress(as_json=json) as progress:
        report = export_bundle(
            chosen,
            output or Path(bundle_name(chosen.model)),
            force=force,
            verify=not no_verify,
            max_memory_bytes=max_memory_bytes,
            greedy=greedy,
            progress=progress,
        )
    print_report(report, as_json=json)


def bundle_name(model: str) -> str:
    """The default bundle for `model`: `t5-small.bundle` for a Hub id, a directory or a file of that name."""
    path = Path(model).expanduser()
    name = path.resolve().name if path.exists() else model.rstrip("/").rpartition("/")[2]
    return f"{name.removesuffix('.gguf')}.bundle"


def _recipe(name: str | None, **given: Any) -> Recipe:
    """The named recipe, or none, with every given value in place of its own."""
    changes = {field: value for field, value in given.items() if value is not None}
    if name is None:
        if "model" not in changes:
            raise RecipeError(
                "recipe", ["give a MODEL, or a named recipe with --recipe (see --list-recipes)"]
            )
        return Recipe(**changes)
    if name not in RECIPES:
        raise RecipeError("recipe", [f"--recipe {name} is unknown; available: {', '.join(RECIPES)}"])
    return replace(RECIPES[name](), **changes)
