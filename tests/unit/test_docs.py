"""The documents say what the code says: tolerances, options, families, links, numbered decisions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer

from exporter import cli
from exporter.bundle.tolerances import TOLERANCES
from exporter.spec.families import FAMILIES
from recipes.index import RECIPES
from runtime_shims import cli as run_cli
from tests.families.table import with_block
from tests.recipe_tables.table import PAGE
from tests.recipe_tables.table import with_block as with_recipes

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def options_of(*apps: typer.Typer) -> set[str]:
    """Every long option of the commands."""
    commands = []
    for app in apps:
        command = typer.main.get_command(app)
        commands += list(getattr(command, "commands", {"": command}).values())
    return {option for command in commands for parameter in command.params for option in (*parameter.opts, "--help")}


def runner_options() -> set[str]:
    """Every option of the C++ runner."""
    source = text_of(ROOT / "runtime_shims" / "cpp" / "tools" / "options.cpp")
    return {f"--{name}" for name in re.findall(r'^ +\{"([a-z-]+)", (?:no|required)_argument', source, re.MULTILINE)}


def demo_options() -> set[str]:
    return set(re.findall(r'"(--[a-z-]+)"', text_of(ROOT / "examples" / "demo.py")))


def test_contributing_repeats_the_table_of_tolerances() -> None:
    text = text_of(ROOT / "CONTRIBUTING.md")
    rows = re.findall(r"^\| (float\w+|8 bits|features) \| (\w+) \| ([\d.e-]+) \| (.+) \|$", text, re.MULTILINE)
    assert rows == [(*key, str(row.relative), row.reason) for key, row in TOLERANCES.items()]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_inside_the_repository_leads_somewhere(path: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", text_of(path))
    assert [link for link in links if not (path.parent / link).exists()] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_file_that_is_named_exists(path: Path) -> None:
    named = re.findall(r"`((?:exporter|runtime_shims|recipes|tests|docs|examples)/[\w./-]*)`", text_of(path))
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/recipes.md"])
def test_every_option_that_is_named_exists(name: str) -> None:
    known = options_of(cli.make_app(), run_cli.make_app()) | runner_options() | demo_options()
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text_of(ROOT / name))) - known == set()


def test_the_readme_has_the_tables_of_families_that_the_tests_give() -> None:
    text = text_of(ROOT / "README.md")
    assert text == with_block(text), "run make families-table"
    assert [name for name in FAMILIES if f"| `{name}` |" not in text] == []


def test_the_page_of_recipes_has_the_tables_that_the_plans_give() -> None:
    text = text_of(PAGE)
    assert text == with_recipes(text), "run make recipes-table"
    assert [name for name in RECIPES if f"| `{name}` |" not in text] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_recipe_that_is_named_exists(path: Path) -> None:
    named = re.findall(r"--recipe ([\w.-]+)", text_of(path))
    assert [name for name in named if name not in RECIPES and name != "NAME"] == []


def test_decisions_are_numbered_without_gaps_and_dated() -> None:
    pages = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    assert [int(page.name[:4]) for page in pages] == list(range(1, len(pages) + 1))
    for page in pages:
        title, _, status = text_of(page).splitlines()[:3]
        assert title.startswith(f"# {page.name[:4]}: ")
        assert re.match(r"Date: \d{4}-\d{2}-\d{2}\. Status: ", status), page.name
        assert "## Context" in text_of(page)
        assert "## Rejected" in text_of(page)
