"""Traced programs, run by PyTorch, equal stock transformers: one family of each architecture kind, every spelling."""

from __future__ import annotations

import pytest

from exporter.trace.graph_checks import check_graphs
from tests.parity.programs import (
    GEMMA,
    GEMMA_ONNX,
    GEMMA_PORTABLE,
    T5,
    T5_ONNX,
    T5_PORTABLE,
    WHISPER,
    WHISPER_ONNX,
    WHISPER_PORTABLE,
    ProgramCase,
    ProgramStore,
)
from tests.parity.schedules import Request, compare, start, wander
from tests.parity.support import StockModel, traced_session

TRACED = [T5, WHISPER, GEMMA, T5_PORTABLE, WHISPER_PORTABLE, GEMMA_PORTABLE, T5_ONNX, WHISPER_ONNX, GEMMA_ONNX]


@pytest.mark.parametrize("case", TRACED, ids=str)
def test_traced_programs_pass_the_graph_checks_and_equal_stock(programs: ProgramStore, case: ProgramCase) -> None:
    planned, stock = programs.planned(case), StockModel(case.case)
    check_graphs(planned.traced)
    session, request = traced_session(planned), Request.random(stock, [40, 18, 27], [24, 1, 9])
    answers = [*start(session, request, [3, 12, 1]), *wander(session, request, seed=1)]
    found = compare(answers, request.expected(stock))
    assert found.passed, found
