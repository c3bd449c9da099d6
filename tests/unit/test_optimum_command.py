"""`optimum-cli export fixed-capacity`: the options, tasks, errors and exit codes of optimum's command."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
from argparse import ArgumentParser
from pathlib import Path

import pytest
import typer
from optimum.commands.base import RootOptimumCLICommand
from optimum.commands.export.base import ExportCommand
from optimum.commands.optimum_cli import register_optimum_cli_subcommand

from exporter.cli import make_app
from exporter.optimum_command.command import FixedCapacityExportCommand
from exporter.optimum_command.options import add_options, as_export_model
from exporter.optimum_command.tasks import resolve_task
from exporter.spec.faults import SpecError
from exporter.spec.recipe import Recipe
from tests.support.small_t5 import SMALL_T5

REGISTER = Path(__file__).parents[2] / "exporter" / "optimum_command" / "register" / "fixed_capacity.py"


def run(*arguments: object) -> int:
    """`optimum-cli export fixed-capacity` with these arguments; the exit code."""
    root = RootOptimumCLICommand("Optimum CLI tool", usage="optimum-cli")
    register_optimum_cli_subcommand(ExportCommand, root)
    (export,) = root.registered_subcommands
    register_optimum_cli_subcommand(FixedCapacityExportCommand, export)
    try:
        given = root.parser.parse_args(["export", "fixed-capacity", *map(str, arguments)])
        given.func(given).run()
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def parsed(*arguments: str) -> list[str]:
    """The command line of export-model that optimum's arguments become."""
    parser = ArgumentParser()
    add_options(parser)
    return as_export_model(parser.parse_args(arguments))


def test_optimum_finds_the_command_in_the_registration_file() -> None:
    registered = runpy.run_path(str(REGISTER))["REGISTER_COMMANDS"]
    assert registered == [(FixedCapacityExportCommand, ExportCommand)]


def test_every_option_of_export_model_is_there_with_its_help() -> None:
    parser = ArgumentParser()
    add_options(parser)
    here = {option: action.help for action in parser._actions for option in action.option_strings}
    there = typer.main.get_command(make_app()).params
    for parameter in there:
        if parameter.param_type_name == "option" and parameter.name not in ("output", "list_recipes", "version"):
            assert here[parameter.opts[0]] == parameter.help.replace("%", "%%")
    ours = {option for parameter in there for option in parameter.opts}
    assert set(here) - ours == {"-h", "--help", "-m", "--model", "--task"} - ours


def test_values_are_passed_on_as_they_are() -> None:
    line = parsed("-m", "some/model", "out", "--backend", "xnnpack", "--backend", "onnx", "--max-dec", "64", "--greedy")
    assert line == [
        "--output", "out", "--max-dec=64", "--backend=xnnpack", "--backend=onnx", "--greedy", "--", "some/model",
    ]  # fmt: skip
    assert parsed("--model=-odd", "--seed", "-3") == ["--seed=-3", "--", "-odd"]
    assert parsed("-m", "x", "--draft", "") == ["--draft=", "--", "x"]


def test_a_plan_is_that_of_export_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("-m", SMALL_T5, "--max-batch", 3, "--plan-only", "--json") == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["limits"]["max_batch"] == 3
    assert err == "task text2text-generation\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-m", SMALL_T5, "--task", "text-generation"), "--task text-generation: .* is for text2text-generation; give"),
        (("-m", SMALL_T5, "--max-batch", "0"), "recipe: --max-batch 0 is not allowed; use a whole number"),
        (("-m", SMALL_T5, "--max-batch", "many"), "Invalid value for '--max-batch'"),
        (("-m", SMALL_T5, "--max-memory", "1k"), "--max-memory"),
        (("-m", "./nowhere"), "./nowhere: there is no such file or directory"),
        (("-m", SMALL_T5, SMALL_T5), "already exists"),
        (("--task", "translation"), "give a model with -m/--model, or a named recipe with --recipe"),
    ],
)
def test_a_wrong_argument_is_one_line(
    arguments: tuple[object, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) == 2
    errors = capsys.readouterr().err.strip().splitlines()
    assert "Traceback" not in "".join(errors)
    assert re.search(f"^(optimum-cli|Optimum CLI tool).*: .*{message}", errors[-1]), errors


TASKS = {
    "auto": "text2text-generation",
    "translation": "translation",
    "summarization": "summarization",
    "seq2seq-lm": "seq2seq-lm",
    "text2text-generation-with-past": "text2text-generation-with-past",
}


@pytest.mark.parametrize(("asked", "found"), TASKS.items())
def test_tasks_and_their_synonyms_are_those_of_optimum(asked: str, found: str) -> None:
    assert resolve_task(asked, Recipe(str(SMALL_T5))) == found


@pytest.mark.parametrize(
    ("model", "task"),
    [
        ("smollm2-135m", "text-generation"),
        ("whisper-tiny.en", "automatic-speech-recognition"),
        ("t5-small", "text2text-generation"),
    ],
)
def test_the_task_of_each_kind_is_inferred(model: str, task: str) -> None:
    assert resolve_task("auto", Recipe(model, random_weights=True)) == task


@pytest.mark.parametrize("asked", ["fill-mask", "text-generation", "automatic-speech-recognition", "nonsense"])
def test_a_task_of_another_kind_is_refused(asked: str) -> None:
    with pytest.raises(SpecError, match=f"--task {asked}: .*is for text2text-generation; give that, or leave --task"):
        resolve_task(asked, Recipe(str(SMALL_T5)))


def test_optimum_starts_without_torch_and_transformers() -> None:
    code = (
        f"import runpy, sys; from argparse import ArgumentParser; made = runpy.run_path({str(REGISTER)!r});"
        "made['FixedCapacityExportCommand'].parse_args(ArgumentParser());"
        "sys.exit(any(name in sys.modules for name in ('torch', 'transformers')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
