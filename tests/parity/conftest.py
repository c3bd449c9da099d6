"""Programs shared by the parity tests; see `programs.py`."""

from __future__ import annotations

import pytest
import torch

from tests.parity.programs import Lowered, ProgramStore
from tests.support.shared import shared_directory


@pytest.fixture(scope="session", autouse=True)
def one_torch_thread() -> None:
    """Tiny tensors gain nothing from a second thread; PyTorch's pool would fight the runtime's for cores."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> ProgramStore:
    """One store per process; worker processes of one run share its directory."""
    return ProgramStore(shared_directory(tmp_path_factory, "programs"))


@pytest.fixture
def lowered(programs: ProgramStore, request: pytest.FixtureRequest) -> Lowered:
    """The program that `programs.on` names, loaded once per process."""
    return programs.lowered(request.param)
