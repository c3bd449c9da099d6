"""The options of `export-model`: names, help and panels. The same names mean the same in every tool."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from exporter.spec.deployment import DEVICE_NAMES
from exporter.spec.recipe import ATTENTIONS, BACKENDS, DTYPES, INDEX_DTYPES

MODEL, CAPACITY, PROGRAM, OUTPUT = "Model", "Capacity", "Program", "Output"

ModelArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="MODEL",
        help="Hub id, checkpoint directory, .gguf file, or a known name with --random-weights.",
        show_default=False,
    ),
]
RecipeOption = Annotated[
    str | None,
    typer.Option(
        "--recipe",
        metavar="NAME",
        help="Start from a named recipe; other options change it.",
        rich_help_panel=MODEL,
    ),
]
DeviceOption = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="CLASS",
        help=f"With --recipe: its limits, weights and draft for a class of device ({', '.join(DEVICE_NAMES)}), whose "
        "memory is then --max-memory.",
        rich_help_panel=MODEL,
    ),
]
RandomWeightsOption = Annotated[
    bool,
    typer.Option(
        "--random-weights",
        help="Use the model's geometry with seeded weights; needs no download.",
        rich_help_panel=MODEL,
    ),
]
SeedOption = Annotated[
    int | None,
    typer.Option("--seed", metavar="N", help="Seed of --random-weights. Default: 0.", rich_help_panel=MODEL),
]
MaxBatchOption = Annotated[
    int | None,
    typer.Option("--max-batch", metavar="N", help="Most rows at once. Default: 1.", rich_help_panel=CAPACITY),
]
MaxEncOption = Annotated[
    int | None,
    typer.Option(
        "--max-enc",
        metavar="N",
        help="Most encoder output positions. Default: 512, or the model's limit; 30 s for Moonshine (1250) and "
        "Speech2Text (750); fixed for Whisper.",
        rich_help_panel=CAPACITY,
    ),
]
MaxDecOption = Annotated[
    int | None,
    typer.Option(
        "--max-dec",
        metavar="N",
        help="Most decoder positions; the context of a decoder-only model. Default: 2048 decoder-only, "
        "256 text, 448 Whisper, or the model's limit.",
        rich_help_panel=CAPACITY,
    ),
]
MaxDraftOption = Annotated[
    int | None,
    typer.Option(
        "--max-draft",
        metavar="K",
        help="Most draft tokens verified in one step. Default: 4, or what --max-dec allows.",
        rich_help_panel=CAPACITY,
    ),
]
PrefillChunkOption = Annotated[
    int | None,
    typer.Option(
        "--prefill-chunk",
        metavar="N",
        help="Prompt tokens taken by one step. Default: 128 decoder-only, 16 encoder-decoder.",
        rich_help_panel=CAPACITY,
    ),
]
MaxMemoryOption = Annotated[
    str | None,
    typer.Option(
        "--max-memory",
        metavar="SIZE",
        help="Refuse what takes more at run time, such as 512M or 2G: the plan at once, activations once lowered.",
        rich_help_panel=CAPACITY,
    ),
]
BackendOption = Annotated[
    list[str] | None,
    typer.Option(
        "--backend",
        metavar="NAME",
        help=f"{' or '.join(BACKENDS)}; repeat for several programs. With onnx all of them have portable attention. "
        f"Default: {BACKENDS[0]}.",
        rich_help_panel=PROGRAM,
    ),
]
AttentionOption = Annotated[
    str | None,
    typer.Option(
        "--attention",
        metavar="FORM",
        help=f"{' or '.join(ATTENTIONS)}: our operator, or core operators that any runtime has. "
        "Default: fused where the operator library is built.",
        rich_help_panel=PROGRAM,
    ),
]
QuantizeOption = Annotated[
    str | None,
    typer.Option(
        "--quantize",
        metavar="SCHEME",
        help="Weights in 8 bits (8da8w) or 4 (8da4w), multiplied with activations of 8 bits; int8-weights-kv keeps "
        "caches in 8 bits too; or none. Default: none.",
        rich_help_panel=PROGRAM,
    ),
]
EmbeddingBitsOption = Annotated[
    int | None,
    typer.Option(
        "--embedding-bits",
        metavar="N",
        help="With --quantize: bits of embedding and output head, 8 or 4. Default: 8.",
        rich_help_panel=PROGRAM,
    ),
]
GroupSizeOption = Annotated[
    int | None,
    typer.Option(
        "--group-size",
        metavar="N",
        help="With --quantize: weights that share a scale, a multiple of 32. Default: 32. With onnx a power of two; 0: "
        "all of a feature, and all activations of a row, in standard operators.",
        rich_help_panel=PROGRAM,
    ),
]
DtypeOption = Annotated[
    str | None,
    typer.Option(
        "--dtype",
        metavar="TYPE",
        help=f"How caches and unquantized matrices are stored: {' or '.join(DTYPES)}. Arithmetic is float32; with onnx "
        f"products are of this type too. Default: {DTYPES[0]}.",
        rich_help_panel=PROGRAM,
    ),
]
IndexDtypeOption = Annotated[
    str | None,
    typer.Option(
        "--index-dtype",
        metavar="TYPE",
        help=f"Type in which ONNX programs take token ids, positions and lengths: {' or '.join(INDEX_DTYPES)}; many "
        f"accelerators and JavaScript prefer int32. Default: {INDEX_DTYPES[0]}.",
        rich_help_panel=PROGRAM,
    ),
]
DraftOption = Annotated[
    str | None,
    typer.Option(
        "--draft",
        metavar="MODEL",
        help="Put a second model into the bundle that proposes tokens: self-int4 (this model in 4 bits), mtp (the "
        "assistant published with a Gemma 4 model, MODEL-assistant), or any MODEL of the same tokenizer. Prompt lookup "
        "needs none; none: leave out that of a recipe.",
        rich_help_panel=PROGRAM,
    ),
]
GreedyOption = Annotated[
    bool,
    typer.Option(
        "--greedy",
        help="Decode greedily where the checkpoint asks for sampling or beams, instead of refusing it.",
        rich_help_panel=PROGRAM,
    ),
]
OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="BUNDLE",
        help="Directory to write. Default: ./<model name>.bundle, or ./<model name>-<device>.bundle.",
        rich_help_panel=OUTPUT,
    ),
]
ForceOption = Annotated[
    bool, typer.Option("--force", help="Replace an existing bundle.", rich_help_panel=OUTPUT)
]
PlanOnlyOption = Annotated[
    bool, typer.Option("--plan-only", help="Print the plan and stop.", rich_help_panel=OUTPUT)
]
NoVerifyOption = Annotated[
    bool,
    typer.Option(
        "--no-verify", help="Do not compare the bundle with the original model.", rich_help_panel=OUTPUT
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.", rich_help_panel=OUTPUT)]
DebugOption = Annotated[
    bool,
    typer.Option("--debug", help="Show warnings and the traceback of an error.", rich_help_panel=OUTPUT),
]
ListRecipesOption = Annotated[
    bool,
    typer.Option(
        "--list-recipes",
        help="Print all recipes with their limits and memory on each class of device, or the one named as MODEL in "
        "full; with --device, for one class.",
    ),
]
