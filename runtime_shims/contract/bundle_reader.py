"""Opens a bundle directory: reads its manifest and holds every listed file against it.

A bundle that is not exactly what the exporter wrote is refused before any of it is used.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from runtime_shims.contract.errors import BundleCorrupt, BundleMissing, UserInputError
from runtime_shims.contract.integers import pictured
from runtime_shims.contract.manifest import EXPORT_BACKENDS, MANIFEST_NAME, FileEntry, Manifest, ProgramEntry, from_json
from runtime_shims.contract.manifest_rules import DRAFT_MANIFEST

READ_BYTES = 1 << 20
REPAIR = "copy the bundle again or export the model again"


@dataclass(frozen=True)
class Bundle:
    """A bundle whose manifest is valid and whose files are the ones it lists."""

    root: Path
    manifest: Manifest

    def program(self, backend: str | None = None) -> ProgramEntry:
        """The program for `backend`, or the first one. Raises UserInputError naming what there is."""
        programs = self.manifest.programs
        if backend is None:
            return programs[0]
        for program in programs:
            if program.backend == backend:
                return program
        available = ", ".join(program.backend for program in programs)
        advice = f"give --backend {' or '.join(program.backend for program in programs)}"
        if backend in EXPORT_BACKENDS:
            advice += f", or export the model with --backend {backend}"
        raise UserInputError(f"this bundle has no {pictured(backend)} program, it has {available}; {advice}")

    def draft(self, check_hashes: bool = True) -> Bundle | None:
        """The bundle inside that drafts for this one, or None. Raises as `read_bundle` does."""
        if self.manifest.recipe.draft is None or self.manifest.assistant is not None:
            return None
        return read_bundle(self.file(DRAFT_MANIFEST).parent, check_hashes)

    def file(self, path: str) -> Path:
        """Where the listed file `path` lies. Raises UserInputError for a file that is not listed."""
        if not any(entry.path == path for entry in self.manifest.files):
            listed = ", ".join(entry.path for entry in self.manifest.files)
            raise UserInputError(f"this bundle lists no file {path!r}; it lists {listed}")
        return self.root / path


def read_bundle(path: str | os.PathLike[str], check_hashes: bool = True) -> Bundle:
    """The bundle in directory `path`.

    Presence, confinement and size of every listed file are always checked; `check_hashes=False`
    skips reading their contents. Files that are not listed are ignored and cannot be reached.

    Raises:
        BundleMissing: `path` is no directory or holds no manifest.
        FormatTooNew, ManifestInvalid: see `manifest.from_json`.
        BundleCorrupt: with every listed file that is absent, outside, or changed.
    """
    root = Path(path)
    advice = "give the directory that export-model wrote"
    if not root.exists():
        raise BundleMissing(str(root), ["there is no such directory"], advice)
    if not root.is_dir():
        raise BundleMissing(str(root), ["a bundle is a directory, this is a file"], advice)
    manifest_path = root / MANIFEST_NAME
    if not manifest_path.is_file():
        raise BundleMissing(str(root), [f"there is no {MANIFEST_NAME} in it"], advice)
    manifest = from_json(_read_manifest(root, manifest_path), where=str(manifest_path))
    checks: list[Callable[[Path, FileEntry], str | None]] = [_place_fault]
    if check_hashes:
        checks.append(_content_fault)
    faults = [fault for entry in manifest.files if (fault := _first_fault(root, entry, checks))]
    if faults:
        raise BundleCorrupt(str(root), faults, REPAIR)
    return Bundle(root, manifest)


def _read_manifest(root: Path, manifest_path: Path) -> bytes:
    if not _is_inside(root, manifest_path):
        raise BundleCorrupt(str(root), [f"{MANIFEST_NAME} is a link that leads out of the bundle"], REPAIR)
    try:
        return manifest_path.read_bytes()
    except OSError as error:
        raise BundleCorrupt(
            str(root), [f"{MANIFEST_NAME} cannot be read ({error.strerror})"], REPAIR
        ) from None


def _first_fault(
    root: Path, entry: FileEntry, checks: list[Callable[[Path, FileEntry], str | None]]
) -> str | None:
    """What is wrong with one listed file; a later check relies on the earlier ones."""
    try:
        return next((fault for check in checks if (fault := check(root, entry))), None)
    except OSError as error:
        return f"{entry.path} cannot be read ({error.strerror})"


def _is_inside(root: Path, path: Path) -> bool:
    """Whether `path`, all links followed, lies in `root`."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root))


def _place_fault(root: Path, entry: FileEntry) -> str | None:
    path = root / entry.path
    if not _is_inside(root, path):
        return f"{entry.path} is a link that leads out of the bundle"
    if not path.exists():
        return f"{entry.path} is missing"
    if not path.is_file():
        return f"{entry.path} is not a file"
    size = path.stat().st_size
    if size != entry.size_bytes:
        return f"{entry.path} has {size} bytes, the manifest says {entry.size_bytes}"
    return None


def _content_fault(root: Path, entry: FileEntry) -> str | None:
    found = sha256_of(root / entry.path)
    if found != entry.sha256:
        wanted = entry.sha256
        return f"{entry.path} has changed: its SHA-256 is {found[:12]}..., the manifest says {wanted[:12]}..."
    return None


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's bytes in lower-case hexadecimal; reads it in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while piece := stream.read(READ_BYTES):
            digest.update(piece)
    return digest.hexdigest()
