"""The console entry points: an interrupt is one line from the first import on."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from processes import run

ENTRIES = {
    "export-model": ("exporter.start", "export_model"),
    "run-model": ("runtime_shims.start", "run_model"),
}
INTERRUPTED_IMPORT = """
import os, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {interrupted!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
from {module} import {function}
sys.exit({function}())
"""


@pytest.mark.parametrize("interrupted", ["typer", "runtime_shims.console"])
@pytest.mark.parametrize("name", ENTRIES)
def test_an_interrupt_while_the_command_is_imported_is_one_line(name: str, interrupted: str) -> None:
    module, function = ENTRIES[name]
    code = INTERRUPTED_IMPORT.format(interrupted=interrupted, module=module, function=function)
    done = run(sys.executable, "-c", code, "--help")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", f"{name}: interrupted\n")


@pytest.mark.parametrize("name", ENTRIES)
def test_the_entry_point_imports_python_alone(name: str) -> None:
    module, _ = ENTRIES[name]
    code = f"import sys; before = set(sys.modules); import {module}; print(*set(sys.modules) - before)"
    imported = {entry.partition(".")[0] for entry in run(sys.executable, "-c", code).stdout.split()}
    assert module.partition(".")[0] in imported
    assert imported <= {"exporter", "runtime_shims", *sys.stdlib_module_names}


def test_the_commands_are_installed_with_these_entry_points() -> None:
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    scripts = dict(re.findall(r'^([\w-]+) = "([\w.]+:\w+)"$', project, re.MULTILINE))
    assert scripts == {name: ":".join(entry) for name, entry in ENTRIES.items()}
