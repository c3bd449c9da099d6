from __future__ import annotations

import pytest
import torch


@pytest.fixture(scope="session", autouse=True)
def one_torch_thread() -> None:
    """Tiny tensors gain nothing from a second thread; PyTorch's pool would fight the runtime's for cores."""
    torch.set_num_threads(1)
