"""The options of `generate` that say how tokens are chosen."""

from __future__ import annotations

from typing import Annotated

import typer

from runtime_shims.commands.numbers import number, whole_number
from runtime_shims.reference.random_stream import LARGEST_SEED

CHOICE = "Choosing tokens"

TemperatureOption = Annotated[
    float,
    typer.Option(
        help="0 takes the best token; above 0 draws, 1 as the model says.",
        metavar="X",
        rich_help_panel=CHOICE,
        parser=number("--temperature"),
    ),
]
TopKOption = Annotated[
    int,
    typer.Option(
        help="Draw from the N best tokens; 0: all.",
        metavar="N",
        rich_help_panel=CHOICE,
        parser=whole_number("--top-k", 0),
    ),
]
TopPOption = Annotated[
    float,
    typer.Option(
        help="Draw from the fewest best tokens that hold this much of the mass; 1: all.",
        metavar="X",
        rich_help_panel=CHOICE,
        parser=number("--top-p"),
    ),
]
MinPOption = Annotated[
    float,
    typer.Option(
        help="Draw from tokens this likely, relative to the best; 0: all.",
        metavar="X",
        rich_help_panel=CHOICE,
        parser=number("--min-p"),
    ),
]
RepetitionPenaltyOption = Annotated[
    float,
    typer.Option(
        help="Above 1 makes tokens of the row less likely; 1: off.",
        metavar="X",
        rich_help_panel=CHOICE,
        parser=number("--repetition-penalty"),
    ),
]
NoRepeatNgramOption = Annotated[
    int,
    typer.Option(
        help="No N tokens in a row may come twice; 0: off.",
        metavar="N",
        rich_help_panel=CHOICE,
        parser=whole_number("--no-repeat-ngram", 0),
    ),
]
MinNewTokensOption = Annotated[
    int,
    typer.Option(
        help="Do not end before this many tokens.",
        metavar="N",
        rich_help_panel=CHOICE,
        parser=whole_number("--min-new-tokens", 0),
    ),
]
MaxNewTokensOption = Annotated[
    int | None,
    typer.Option(
        help="Tokens per row. Default: the bundle's setting, else the capacity.",
        metavar="N",
        parser=whole_number("--max-new-tokens", 1),
    ),
]
SeedOption = Annotated[
    int,
    typer.Option(
        help="Of all draws: the same seed, the same text. Not so with a draft model under --speculate auto, where "
        "measured time decides how many drafts are asked for; --speculate draft repeats itself.",
        metavar="N",
        rich_help_panel=CHOICE,
        parser=whole_number("--seed", 0, LARGEST_SEED),
    ),
]
StopOption = Annotated[
    list[str] | None,
    typer.Option(
        "--stop",
        help="Text that ends a row and is left out; repeat for several.",
        metavar="TEXT",
        rich_help_panel=CHOICE,
    ),
]
