"""One tiny checkpoint and one lowered bundle, made once for all tests that need a real one; and programs in memory."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
import torch
from processes import EXPORT_MODEL, LLAMA_LIMITS, run
from runtime_doubles import HistoryProgram

from runtime_shims.contract.bundle_reader import Bundle
from runtime_shims.contract.manifest import ProgramEntry
from runtime_shims.reference import loading
from tests.support.letters import letter_tokenizer
from tests.support.shared import made_once, shared_directory
from tests.support.tiny_configs import VOCAB
from tests.support.tiny_models import build


def pytest_configure() -> None:
    """A test run in the background of a shell begins with Ctrl-C ignored, and so would every command it starts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def one_torch_thread() -> None:
    """Tiny tensors gain nothing from a second thread."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def llama_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Llama with a tokenizer of letters, as a local checkpoint. Copy it before changing it."""
    directory = tmp_path_factory.mktemp("checkpoint") / "llama"
    build("llama").save_pretrained(directory)
    letter_tokenizer(VOCAB).save_pretrained(directory)
    return directory


@pytest.fixture(scope="session")
def llama_bundle(llama_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its bundle, written by `export-model` in a process of its own. Copy it before changing it."""

    def export(directory: Path) -> None:
        directory.mkdir()
        arguments = (*LLAMA_LIMITS, "--backend", "portable", "--attention", "portable", "-o", directory / name)
        done = run(*EXPORT_MODEL, llama_checkpoint, *arguments)
        assert done.returncode == 0, done.stderr
        assert [path.name for path in directory.iterdir()] == [name]

    name = "llama.bundle"
    return made_once(shared_directory(tmp_path_factory, "unit") / "bundle", export) / name


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[HistoryProgram]:
    """Loading a program gives a HistoryProgram; all that were loaded, in order."""
    loaded: list[HistoryProgram] = []

    def load(bundle: Bundle, entry: ProgramEntry, threads: int | None = None) -> HistoryProgram:
        loaded.append(HistoryProgram(bundle.manifest.limits))
        return loaded[-1]

    monkeypatch.setattr(loading, "load_program", load)
    return loaded
