"""Fixtures of the real-weight tests: weights and exports are made once per run, eager models once per process.

Set FIXED_CAPACITY_REAL_EXPORTS to a directory to keep the exports there and to find them again in the next
run. Whoever changes the exporter empties it; without the variable every run exports anew.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from filelock import FileLock
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from tests.real.exports import Exports
from tests.real.oracle import JudgedOnce
from tests.real.summary import Summary
from tests.support.real import load_dense, load_gguf, real_weights, save_dense
from tests.support.shared import WORKERS, made_once, shared_directory

KEEP_EXPORTS = "FIXED_CAPACITY_REAL_EXPORTS"
GgufModel = tuple[PreTrainedModel, PreTrainedTokenizerBase]

_summary = pytest.StashKey[Summary]()
_exports = pytest.StashKey[Exports]()


@pytest.fixture(scope="session", autouse=True)
def _one_thread_for_pytorch() -> Iterator[None]:
    """The runtime's own pool gets the cores; see `oracle.eager_threads`."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory that starts empty and is shared by the worker processes of a run; gone when the last one ends."""
    directory = shared_directory(tmp_path_factory, "real")
    users = directory / "users"
    users.mkdir(parents=True, exist_ok=True)
    mine = users / str(os.getpid())
    mine.touch()
    yield directory
    with FileLock(f"{directory}.lock"):
        mine.unlink()
        if not any(users.iterdir()):
            shutil.rmtree(directory)


@pytest.fixture(scope="session")
def weights_cache(shared: Path) -> Path:
    """Real weights, converted in this run."""

    def convert(target: Path) -> None:
        real_weights().gemma3_270m_gguf(target)
        real_weights().whisper_tiny_en_checkpoint(target)

    return made_once(shared / "weights", convert)


@pytest.fixture(scope="session")
def exports(pytestconfig: pytest.Config, shared: Path, weights_cache: Path) -> Iterator[Exports]:
    """The bundles; several gigabytes, gone after the run unless they are to be kept."""
    path = Path(os.environ.get(KEEP_EXPORTS) or shared / "exports")
    path.mkdir(parents=True, exist_ok=True)
    made = pytestconfig.stash[_exports] = Exports(path, weights_cache, max(1, min(2, os.cpu_count() or 1) // WORKERS))
    yield made
    made.stop()


@pytest.fixture(scope="session")
def summary(pytestconfig: pytest.Config) -> Summary:
    """Takes findings for the end of the run."""
    return pytestconfig.stash.setdefault(_summary, Summary())


@pytest.fixture(scope="session")
def gemma3(shared: Path, weights_cache: Path) -> GgufModel:
    """Gemma 3 270M in stock transformers, fp32."""
    gguf = real_weights().gemma3_270m_gguf(weights_cache)
    return load_dense(made_once(shared / "gemma3", lambda target: save_dense(gguf, target)))


@pytest.fixture(scope="session")
def gemma3_judge(shared: Path, request: pytest.FixtureRequest) -> JudgedOnce:
    """Gemma 3 270M in stock transformers as a judge."""
    return JudgedOnce(shared, lambda: request.getfixturevalue("gemma3")[0])


@pytest.fixture(scope="session")
def probe_P() -> torch.Tensor:
    """Entries of Gemma's vocabulary whose logits are compared, drawn once."""
    return torch.randperm(262_144, generator=torch.Generator().manual_seed(0))[:1000]


@pytest.fixture(scope="session")
def smollm2() -> GgufModel:
    """SmolLM2-135M-Instruct in stock transformers, fp32."""
    return load_gguf(real_weights().smollm2_gguf())


def measured(config: pytest.Config) -> Summary:
    """What this process knows."""
    summary, exports = config.stash.setdefault(_summary, Summary()), config.stash.get(_exports, None)
    if exports is not None:
        summary.records |= exports.records
    return summary


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker hands over what it measured."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["measured"] = measured(session.config).packed()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A worker has ended; one that died hands over nothing."""
    packed = getattr(node, "workeroutput", {}).get("measured")
    if packed is not None:
        node.config.stash.setdefault(_summary, Summary()).unpack(packed)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print what was measured, if anything was."""
    text = measured(config).render()
    if text:
        terminalreporter.section("real weights")
        terminalreporter.write(text)
