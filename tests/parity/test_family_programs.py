"""Every family as a program file of every form equals stock transformers: the table of families in README.md.

Ragged prompts in chunks, idle rows, steps of verify width, rejected drafts that are rolled back, and greedy tokens.
Lowering them all takes half an hour: `make test-families`. `make test` lowers a few of them, here and in
`test_lowered.py`.
"""

from __future__ import annotations

import pytest

from runtime_shims.reference.generation import generate
from tests.families.forms import FORMS, program_cases
from tests.parity.programs import Lowered, ProgramCase, ProgramStore, on
from tests.parity.schedules import start, wander

FUSED, _, ONNX = FORMS
IN_EVERY_RUN = (FUSED.of("gpt_oss"), ONNX.of("gpt_oss"))
"""Attention sinks and experts, which no other test lowers."""


def check(lowered: Lowered) -> None:
    """One batch past several windows, two of its rows in another order, and greedy tokens."""
    request = lowered.request([40, 18, 27], [24, 1, 9])
    session = lowered.session
    lowered.check([*start(session, request, [3, 12, 1]), *wander(session, request, seed=1)], request)
    reordered = request.rows([2, 0])
    lowered.check([*start(session, reordered, [1, 7]), *wander(session, reordered, seed=2)], reordered)
    prompts = lowered.request([5, 11], [9, 24], seed=3)
    rules, sources = session.manifest.tokens, prompts.sources or (None, None)
    expected = [lowered.stock.greedy(*row, 12, rules) for row in zip(prompts.texts, sources, strict=True)]
    got = generate(session, prompts.texts, prompts.session_source, max_new_tokens=12)
    assert [row.tokens for row in got] == expected


@on(*IN_EVERY_RUN)
def test_programs_with_experts_and_attention_sinks_equal_stock(lowered: Lowered) -> None:
    check(lowered)


@pytest.mark.families
@pytest.mark.parametrize("case", [case for case in program_cases() if case not in IN_EVERY_RUN], ids=str)
def test_every_family_in_every_form_equals_stock(programs: ProgramStore, case: ProgramCase) -> None:
    """Each program is loaded for its own test alone: all together are many."""
    check(Lowered(case, programs.bundle(case)))
