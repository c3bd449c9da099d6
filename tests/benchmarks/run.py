"""Benchmarks of our bundles and their rivals; `make bench` installs and runs everything.

    python -m tests.benchmarks.run [TASK ...] [--only PART] [--rounds 5] [--threads 2]

Answers are compared before anything is timed. Then rivals take turns; times are medians over the rounds. A rival that
cannot be installed, built or run is a row that says why. Reports (JSON) and plots (PNG) go to the results directory.
Use an idle machine.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path

from rich.console import Console

from tests.benchmarks.harness.environments import ROOT
from tests.benchmarks.harness.settings import Settings

TASKS = ("decode", "seq2seq", "speech", "capacity", "quality", "speculation")


def settings_of(options: argparse.Namespace) -> Settings:
    """The settings in the options of the command line."""
    return Settings(
        work=options.work.resolve(),
        results=options.results.resolve(),
        threads=options.threads,
        rounds=options.rounds,
        reuse=options.reuse,
        only=tuple(options.only),
        console=Console(width=max(Console().width, 160)),
    )


def task(name: str) -> str:
    """A task's name, checked here because `choices` refuses an empty list before Python 3.12."""
    if name not in TASKS:
        raise argparse.ArgumentTypeError(f"there is no task {name}: {', '.join(TASKS)}")
    return name


def parser() -> argparse.ArgumentParser:
    """The command line."""
    out = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    out.add_argument("tasks", nargs="*", type=task, metavar="TASK", help=f"{', '.join(TASKS)}; default: all")
    out.add_argument("--only", nargs="+", default=[], metavar="PART", help="only workloads with this in their names")
    out.add_argument("--rounds", type=int, default=5, help="timed answers per rival (default: %(default)s)")
    out.add_argument("--threads", type=int, default=2, help="threads of each rival (default: %(default)s)")
    out.add_argument("--work", type=Path, default=ROOT / "work", help="where checkpoints and bundles are kept")
    out.add_argument("--results", type=Path, default=ROOT / "results", help="where reports and plots go")
    out.add_argument("--reuse", action="store_true", help="run bundles that are there, whatever commit made them")
    return out


def main() -> None:
    options = parser().parse_args()
    settings = settings_of(options)
    faults: list[str] = []
    for name in options.tasks or TASKS:
        faults += import_module(f"tests.benchmarks.{name}.workloads").run(settings)
    if faults:
        raise SystemExit("\n".join(faults))


if __name__ == "__main__":
    main()
