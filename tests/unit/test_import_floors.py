"""Imports point down the floors only, and each backend is known to its own files only.

The rules are read from the source text; nothing is imported. Imports inside functions and under
TYPE_CHECKING count like any other.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PACKAGES = ("runtime_shims", "exporter", "recipes")

EXPORTER_FLOORS = {
    "__init__": 0,
    "spec": 1,
    "operator_library": 1,
    "plan_view": 2,
    "named_recipes": 2,
    "recipe_plans": 2,
    "recipe_view": 3,
    "cli_options": 2,
    "cli_output": 4,
    "cache": 2,
    "drop_in": 2,
    "row_operators": 2,
    "weights": 2,
    "models": 3,
    "trace": 4,
    "lower": 5,
    "bundle": 6,
    "verify": 7,
    "planned": 7,
    "report": 7,
    "pipeline": 8,
    "cli": 9,
    "hf_models": 9,
    "start": 10,
    "hf": 10,
    "optimum_command": 10,
}
"""Files and directories of exporter/, lowest first. A module may import its own floor and those below."""

HOMES = {
    "torch.export": ("exporter/trace/*",),
    "executorch": (
        "exporter/lower/executorch.py",
        "exporter/lower/executorch_*.py",
        "runtime_shims/reference/executorch_program.py",
        "runtime_shims/native.py",
    ),
    "onnx": ("exporter/lower/onnx.py", "exporter/lower/onnx_*.py", "runtime_shims/reference/onnx_graphs.py"),
    "onnxruntime": ("runtime_shims/reference/onnx_sessions.py",),
}
"""Modules that only these files may import."""


@dataclass(frozen=True)
class Import:
    """One imported module, or a name from one, with its place."""

    file: str
    line: int
    module: str

    def is_in(self, *packages: str) -> bool:
        """Whether the imported module is one of `packages` or lies below one."""
        return any(self.module == package or self.module.startswith(f"{package}.") for package in packages)

    def fault(self, rule: str) -> str:
        return f"{self.file}:{self.line} imports {self.module}: {rule}"


def is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def imported_modules(tree: ast.AST, package: str) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything imported; `package` is what relative imports start from."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            origin = ".".join([*above, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{origin}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Attribute) and node.attr == "export" and is_name(node.value, "torch"):
            yield node.lineno, "torch.export"
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
            name = node.args[0] if node.args else None
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                yield node.lineno, name.value


def imports_below(root: Path) -> list[Import]:
    """All imports of the three packages under `root`."""
    found = set()
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            relative = path.relative_to(root)
            tree = ast.parse(path.read_text(encoding="utf-8"))
            for line, module in imported_modules(tree, ".".join(relative.parent.parts)):
                found.add(Import(relative.as_posix(), line, module))
    return sorted(found, key=lambda entry: (entry.file, entry.line, entry.module))


def exporter_unit(parts: list[str]) -> str:
    """The entry of EXPORTER_FLOORS for the dotted or slashed parts after "exporter"."""
    return parts[0].removesuffix(".py") if parts else "__init__"


def floor_faults(entry: Import) -> list[str]:
    """An import within exporter/ that points upwards, or a part of exporter/ without a floor."""
    if not (entry.file.startswith("exporter/") and entry.is_in("exporter")):
        return []
    importer, imported = (
        exporter_unit(entry.file.split("/")[1:]),
        exporter_unit(entry.module.split(".")[1:]),
    )
    if importer not in EXPORTER_FLOORS:
        return [f"{entry.file} has no floor: add {importer} to EXPORTER_FLOORS"]
    below = EXPORTER_FLOORS.get(imported, 0) < EXPORTER_FLOORS[importer]
    rule = f"floor {EXPORTER_FLOORS[importer]} may import lower floors only"
    return [] if below or imported == importer else [entry.fault(rule)]


def is_ours(entry: Import, *packages: str) -> bool:
    """Whether the import is from the standard library or from one of `packages`."""
    return entry.module.split(".")[0] in sys.stdlib_module_names or entry.is_in(*packages)


def import_faults(entry: Import) -> list[str]:
    """Every rule that one import breaks."""
    faults = floor_faults(entry)
    if entry.file.startswith("runtime_shims/") and entry.is_in("exporter", "recipes"):
        faults.append(entry.fault("what runs a bundle does not know what makes one"))
    elif entry.file.startswith("runtime_shims/contract/") and not is_ours(entry, "runtime_shims.contract"):
        faults.append(entry.fault("the contract imports the standard library only"))
    elif entry.file.startswith("recipes/") and not is_ours(entry, "recipes", "exporter.spec"):
        faults.append(entry.fault("recipes are values: standard library and exporter.spec only"))
    for module, homes in HOMES.items():
        if entry.is_in(module) and not any(fnmatch(entry.file, home) for home in homes):
            faults.append(entry.fault(f"{module} is imported in {', '.join(homes)} only"))
    return faults


def all_faults(root: Path) -> list[str]:
    """Every broken rule below `root`."""
    return [fault for entry in imports_below(root) for fault in import_faults(entry)]


def test_the_project_keeps_its_floors() -> None:
    assert imports_below(REPOSITORY)
    assert all_faults(REPOSITORY) == []


def faults_of_file(root: Path, file: str, text: str) -> list[str]:
    """The faults of a tree that has one file."""
    path = root / file
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    return all_faults(root)


VIOLATIONS = [
    ("runtime_shims/contract/manifest.py", "import torch", "standard library only"),
    ("runtime_shims/contract/manifest.py", "from ..reference import session", "standard library only"),
    ("runtime_shims/contract/manifest.py", "from runtime_shims import native", "standard library only"),
    ("runtime_shims/contract/manifest.py", "def f():\n    import numpy", "standard library only"),
    ("runtime_shims/reference/session.py", "from exporter.spec import recipe", "does not know"),
    ("runtime_shims/reference/session.py", "import recipes", "does not know"),
    ("runtime_shims/cli.py", "import exporter.cli", "does not know"),
    ("exporter/spec/plan.py", "from exporter.cache import ring", "floor 1"),
    ("exporter/spec/plan.py", "from exporter import cache", "floor 1"),
    ("exporter/cache/ring.py", "from ..models import decoder_only", "floor 2"),
    ("exporter/models/text.py", "import exporter.trace.trace", "floor 3"),
    ("exporter/trace/trace.py", "from exporter.lower import executorch", "floor 4"),
    ("exporter/lower/onnx.py", "from exporter.bundle import writer", "floor 5"),
    ("exporter/bundle/writer.py", "from exporter.verify import parity", "floor 6"),
    ("exporter/verify/parity.py", "from exporter.pipeline import run", "floor 7"),
    ("exporter/pipeline.py", "from exporter.cli import main", "floor 8"),
    ("exporter/cli.py", "import exporter.optimum_command", "floor 9"),
    ("exporter/hf.py", "import exporter.optimum_command", "floor 10"),
    ("exporter/__init__.py", "from exporter.spec import recipe", "floor 0"),
    ("exporter/spec/plan.py", "if TYPE_CHECKING:\n    from exporter.cli import main", "floor 1"),
    ("exporter/newcomer/new.py", "from exporter.spec import recipe", "has no floor: add newcomer"),
    ("exporter/verify/parity.py", "import torch.export", "exporter/trace/* only"),
    ("exporter/lower/executorch.py", "from torch.export import ExportedProgram", "exporter/trace/* only"),
    ("exporter/models/text.py", "from torch import export", "exporter/trace/* only"),
    ("exporter/models/text.py", "import torch\ntorch.export.export(1)", "exporter/trace/* only"),
    ("exporter/lower/quantize.py", "import executorch.exir", "exporter/lower/executorch.py, "),
    ("runtime_shims/reference/session.py", "from executorch.runtime import Runtime", "native.py only"),
    ("exporter/cli.py", "import importlib\nimportlib.import_module('executorch')", "native.py only"),
    ("exporter/verify/parity.py", "import onnxruntime", "onnx_sessions.py only"),
    ("exporter/trace/trace.py", "import onnx", "exporter/lower/onnx.py"),
    ("recipes/gemma.py", "import torch", "recipes are values"),
    ("recipes/gemma.py", "from exporter.pipeline import run", "recipes are values"),
]


@pytest.mark.parametrize(("file", "text", "rule"), VIOLATIONS)
def test_a_violation_is_found_and_named(tmp_path: Path, file: str, text: str, rule: str) -> None:
    faults = faults_of_file(tmp_path, file, text)
    assert len(faults) == 1
    assert faults[0].startswith(file)
    assert rule in faults[0]


ALLOWED = [
    (
        "runtime_shims/contract/manifest.py",
        "import json\nfrom runtime_shims.contract import errors\nfrom . import x",
    ),
    ("runtime_shims/reference/executorch_program.py", "import torch\nfrom executorch.runtime import Runtime"),
    ("runtime_shims/native.py", "import executorch"),
    ("exporter/spec/recipe.py", "from runtime_shims.contract.manifest import Limits\nfrom .limits import x"),
    ("exporter/cache/ring.py", "from exporter.cache import masks\nfrom exporter.spec import model_spec"),
    ("exporter/trace/trace.py", "from torch.export import export"),
    ("exporter/lower/executorch_quantize.py", "import executorch.exir\nfrom exporter.trace import trace"),
    ("exporter/lower/onnx.py", "import onnx\nimport torch\ntorch.onnx.export(1)"),
    ("exporter/cli.py", "from exporter import pipeline\nimport recipes"),
    ("recipes/gemma.py", "from exporter.spec.recipe import Recipe\nfrom recipes import common"),
]


@pytest.mark.parametrize(("file", "text"), ALLOWED)
def test_an_import_that_points_down_is_allowed(tmp_path: Path, file: str, text: str) -> None:
    assert faults_of_file(tmp_path, file, text) == []
