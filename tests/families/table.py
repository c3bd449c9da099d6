"""Rows of the tables, from the cases that the tests run and from what a config check refuses."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path

from exporter.spec.families import FAMILIES, KNOWN_OBSTACLES
from tests.families.forms import FORMS, program_cases
from tests.support.tiny_models import CASES, TinyCase

README = Path(__file__).parents[2] / "README.md"
BEGIN, END = "<!-- make families-table: begin -->", "<!-- make families-table: end -->"
KINDS = {
    "text_seq2seq": "text",
    "speech_seq2seq": "speech",
    "decoder_only": "decoder-only",
}


class TableError(Exception):
    """A case or a document from which no table can be made."""


def block() -> str:
    """Everything between the marks, marks included."""
    return "\n".join((BEGIN, family_table(), "", refusal_table(), END))


def family_table() -> str:
    """One row for each tiny model of the tests, in the order of kinds."""
    untested = sorted(set(FAMILIES) - {case.config().model_type for case in CASES.values()})
    if untested:
        raise TableError(f"no tiny model for {', '.join(untested)}; add one to tests/support/tiny_models.py")
    rows = [family_row(case) for kind in KINDS for case in CASES.values() if case.kind == kind]
    headings = ("`model_type`", "kind", "family: what its test model has", *(form.heading for form in FORMS))
    return table(headings, rows)


def family_row(case: TinyCase) -> tuple[str, ...]:
    tested = program_cases()
    cells = ("yes" if form.of(case.name) in tested else "no" for form in FORMS)
    return (f"`{case.config().model_type}`", KINDS[case.kind], description(case), *cells)


def description(case: TinyCase) -> str:
    """The first line of what the tiny config says about itself."""
    said = (inspect.getdoc(case.config) or "").partition("\n")[0].removesuffix(".")
    if ": " not in said:
        raise TableError(f"the docstring of the tiny config {case.name} is no `Family: what it has.`")
    return said.replace("``", "`")


def refusal_table() -> str:
    """Types that look supported and are not, and the fact that stands in the way."""
    types_of: dict[str, list[str]] = {}
    for model_type, fact in sorted(KNOWN_OBSTACLES.items()):
        types_of.setdefault(fact, []).append(f"`{model_type}`")
    return table(("refused", "because of"), [(", ".join(types), fact) for fact, types in types_of.items()])


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(cells) + " |" for cells in (headings, *rows)]
    return "\n".join((lines[0], "|" + "---|" * len(headings), *lines[1:]))


def with_block(text: str) -> str:
    """A document with the tables of today between its marks."""
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise TableError(f"expected one pair of marks {BEGIN} ... {END}")
    before, rest = text.split(BEGIN)
    return before + block() + rest.split(END)[1]
