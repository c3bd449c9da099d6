"""Runs the C++ reader of bundles and manifests beside the Python one."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from runtime_shims.contract.bundle_reader import read_bundle
from runtime_shims.contract.errors import BundleError
from runtime_shims.contract.manifest import from_json

BUILT = Path(__file__).parents[2] / "build" / "dev" / "tests" / "cpp" / "manifest-check"
TOOL = Path(os.environ.get("FIXED_CAPACITY_MANIFEST_CHECK", BUILT))
"""Built by `make test-cpp`."""


@dataclass(frozen=True)
class Verdict:
    """What a reader says of one bundle or manifest: `ok`, or the code of the refusal and its whole message."""

    code: str
    message: str

    def without_syntax(self) -> Verdict:
        """The same without what each JSON parser says in its own words: only the place and the advice are kept."""
        return Verdict(self.code, re.sub(r": not JSON: .*; ", ": not JSON; ", self.message))


def cpp_verdicts(paths: Sequence[Path], check_hashes: bool = True) -> list[Verdict]:
    options = [] if check_hashes else ["--no-hashes"]
    done = subprocess.run([TOOL, *options, *paths], capture_output=True, check=False, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    return [Verdict(answer["code"], answer["message"]) for answer in json.loads(done.stdout)]


def python_verdict(path: Path, check_hashes: bool = True) -> Verdict:
    try:
        if path.is_file():
            from_json(path.read_bytes(), where=str(path))
        else:
            read_bundle(path, check_hashes)
    except BundleError as error:
        words = re.findall("[A-Z][a-z]+", type(error).__name__)
        return Verdict("_".join(words).lower(), str(error))
    return Verdict("ok", "")
