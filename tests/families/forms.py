"""The forms in which every family is exported: one program each, of its tiny model."""

from __future__ import annotations

from dataclasses import dataclass

from tests.parity.programs import ProgramCase
from tests.parity.support import Capacity
from tests.support.tiny_models import CASES

SMALL = Capacity(max_batch=3, max_enc=24, max_dec=100)


@dataclass(frozen=True)
class Form:
    """A column of the table: how attention is written, and which backend runs the rest."""

    heading: str
    attention: str
    backend: str

    def of(self, case: str) -> ProgramCase:
        return ProgramCase(case, self.attention, self.backend, SMALL)


FORMS = (
    Form("`.pte`, `fused`", "fused", "xnnpack"),
    Form("`.pte`, `portable`", "portable", "portable"),
    Form("`.onnx`", "portable", "onnx"),
)


def program_cases() -> tuple[ProgramCase, ...]:
    """Every family in every form: what `test_family_programs.py` exports and runs."""
    return tuple(form.of(case) for case in CASES for form in FORMS)
