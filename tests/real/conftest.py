"""Fixtures of the real-weight tests: weights, exports and eager models are made once per session.

Set FIXED_CAPACITY_REAL_EXPORTS to a directory to keep the exports there and to find them again in the next
run. Whoever changes the exporter empties it; without the variable every session exports anew.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from tests.real.exports import Exports
from tests.real.summary import Summary
from tests.support.real import load_gguf, real_weights

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
def weights_cache() -> Iterator[Path]:
    """A cache of real weights that starts empty, so conversions run, and is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="weights-") as directory:
        yield Path(directory)


@pytest.fixture(scope="session")
def exports(pytestconfig: pytest.Config, weights_cache: Path) -> Iterator[Exports]:
    """The bundles; several gigabytes, gone after the session unless they are to be kept."""
    with tempfile.TemporaryDirectory(prefix="exports-") as directory:
        kept = os.environ.get(KEEP_EXPORTS)
        path = Path(kept or directory)
        path.mkdir(parents=True, exist_ok=True)
        pytestconfig.stash[_exports] = Exports(path, weights_cache)
        yield pytestconfig.stash[_exports]
        pytestconfig.stash[_exports].stop()


@pytest.fixture(scope="session")
def summary(pytestconfig: pytest.Config) -> Summary:
    """Takes findings for the end of the run."""
    return pytestconfig.stash.setdefault(_summary, Summary())


@pytest.fixture(scope="session")
def gemma3(weights_cache: Path) -> GgufModel:
    """Gemma 3 270M in stock transformers, fp32."""
    return load_gguf(real_weights().gemma3_270m_gguf(weights_cache))


@pytest.fixture(scope="session")
def smollm2() -> GgufModel:
    """SmolLM2-135M-Instruct in stock transformers, fp32."""
    return load_gguf(real_weights().smollm2_gguf())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print what was measured, if anything was."""
    exports = config.stash.get(_exports, None)
    records = exports.records.values() if exports else ()
    text = config.stash.setdefault(_summary, Summary()).render(records)
    if text:
        terminalreporter.section("real weights")
        terminalreporter.write(text)
