"""How the tests of malformed bundles change a manifest and read a refusal."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runtime_shims.contract.bundle_reader import read_bundle
from runtime_shims.contract.errors import BundleError

EDITED = "the file was edited or damaged: export the model again"


def edit(bundle: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the manifest as data and write it back."""
    path = bundle / "manifest.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    change(data)
    path.write_text(json.dumps(data), encoding="utf-8")


def refused_line(bundle: Path, error: type[BundleError]) -> str:
    """The single line with which the bundle is refused, the path of the bundle cut off."""
    with pytest.raises(error) as refusal:
        read_bundle(bundle)
    line = str(refusal.value)
    assert "\n" not in line
    assert line.startswith(str(bundle))
    return line.removeprefix(str(bundle))
