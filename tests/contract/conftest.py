from __future__ import annotations

from pathlib import Path

import pytest
from tiny_bundle import write_tiny_bundle


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return write_tiny_bundle(tmp_path / "tiny.bundle")
