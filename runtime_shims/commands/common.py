"""Options that several commands share, and how they open a bundle."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from runtime_shims.commands.numbers import whole_number
from runtime_shims.contract.bundle_reader import Bundle

if TYPE_CHECKING:
    from runtime_shims.reference.session import Session

DISTRIBUTION = "fixed-capacity"
MOST_THREADS = 1024
BundleArgument = Annotated[
    Path, typer.Argument(metavar="BUNDLE", help="Directory that export-model wrote.", show_default=False)
]
BackendOption = Annotated[
    str | None,
    typer.Option(help="Which of the bundle's programs to run. Default: the first.", metavar="NAME"),
]
ThreadsOption = Annotated[
    int | None,
    typer.Option(
        help="Threads of the runtime. Default: one per core.",
        metavar="N",
        parser=whole_number("--threads", 1, MOST_THREADS),
    ),
]
NoVerifyOption = Annotated[
    bool,
    typer.Option("--no-verify", help="Do not check files against their hashes; a damaged program may then crash."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


def quiet_libraries() -> None:
    """Keep the libraries' advice off the terminal; errors still come through as exceptions."""
    import os
    import warnings

    warnings.filterwarnings("ignore")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")


@dataclass(frozen=True)
class RunsOn:
    """Which program of a bundle runs, and on how many threads; None leaves it to the bundle and the machine."""

    backend: str | None = None
    threads: int | None = None


def start_session(bundle: Bundle, backend: str | None, threads: int | None) -> Session:
    """Load the program and make a session. All threads go to the runtime, none to PyTorch."""
    quiet_libraries()
    import torch

    from runtime_shims.reference.loading import open_session

    torch.set_num_threads(1)
    return open_session(bundle, backend, threads)


def print_version(wanted: bool) -> None:
    """Print the version and stop, if `wanted`."""
    if wanted:
        from importlib.metadata import version

        typer.echo(f"{DISTRIBUTION} {version(DISTRIBUTION)}")
        raise typer.Exit


def print_json(data: object) -> None:
    """One JSON document on standard output."""
    typer.echo(json.dumps(data, indent=2, ensure_ascii=False))
