"""Bundles of the tasks, made by the command line; a variant that `export-model` refuses becomes a row."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from runtime_shims.contract.bundle_reader import Bundle, read_bundle
from runtime_shims.contract.manifest import Manifest, to_json
from tests.benchmarks.harness.job import Unavailable, one_line
from tests.benchmarks.harness.process import OFFLINE, REPOSITORY
from tests.real.exports import script

MAKERS = ("exporter", "recipes", "runtime_shims")


@dataclass(frozen=True)
class Variant:
    """One form of our programs and the export options that ask for it.

    exact  greedy tokens must equal those of eager fp32
    """

    name: str
    options: tuple[str, ...]
    exact: bool


VARIANTS = (
    Variant("fp32", (), exact=True),
    Variant("fp16", ("--dtype", "float16"), exact=False),
    Variant("8da8w", ("--quantize", "8da8w"), exact=False),
    Variant("8da4w", ("--quantize", "8da4w"), exact=False),
)


ONNX_VARIANTS = (
    Variant("onnx-fp32", ("--backend", "onnx"), exact=True),
    Variant("onnx-8da8w", ("--backend", "onnx", "--quantize", "8da8w"), exact=False),
    Variant("onnx-8da8w-rows", ("--backend", "onnx", "--quantize", "8da8w", "--group-size", "0"), exact=False),
    Variant("onnx-8da4w", ("--backend", "onnx", "--quantize", "8da4w"), exact=False),
)
"""The same capacities for ONNX Runtime."""


class BundleShelf:
    """Bundles below a directory, each made at first use.

    A bundle is used again when the same options asked for it and no commit since has touched the exporter, or when
    `reuse` says that any will do.
    """

    def __init__(self, directory: Path, reuse: bool) -> None:
        self._directory = directory
        self._reuse = reuse

    def bundle(self, name: str, model: str, options: tuple[str, ...]) -> Bundle:
        """The bundle of `model`. Raises Unavailable with the exporter's own line when it refuses or fails."""
        asked = hashlib.sha256(repr((model, options)).encode()).hexdigest()[:8]
        maker = "any" if self._reuse else last_commit()
        found = sorted(self._directory.glob(f"{name}-{asked}-{'*' if self._reuse else maker}.bundle"))
        path = found[-1] if found else self._directory / f"{name}-{asked}-{last_commit()}.bundle"
        if not found:
            command = [script("export-model"), model, *options, "-o", str(path)]
            self._directory.mkdir(parents=True, exist_ok=True)
            _export(command)
        return read_bundle(path, check_hashes=not found)


def _export(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | OFFLINE)
    if done.returncode:
        said = one_line(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "it said nothing")
        raise Unavailable(f"{'refused' if done.returncode == 2 else 'export failed'}: {said}")


def last_commit() -> str:
    """The short id of the last commit that touched what makes or runs a bundle."""
    command = ["git", "log", "-1", "--format=%h", "--", *MAKERS]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def recipe_sha256(manifest: Manifest) -> str:
    """What tells one export's settings from another's."""
    recipe = json.dumps(json.loads(to_json(manifest))["recipe"], sort_keys=True)
    return hashlib.sha256(recipe.encode()).hexdigest()


def cache_elements(manifest: Manifest, live: float) -> float:
    """Key and value elements that one row's step reads at `live` decoder positions, over all self-attention layers."""
    own = [entry for entry in manifest.caches if entry.kind != "cross"]
    return sum(entry.kv_heads * (entry.key_dim + entry.value_dim) * min(live, entry.reach) for entry in own)
