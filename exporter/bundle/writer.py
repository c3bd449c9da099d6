"""Writing a bundle: everything aside, hashed, then one rename. A failure leaves nothing behind."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from exporter.spec.faults import ExportFailed, SpecError, one_line
from runtime_shims.contract.bundle_reader import sha256_of
from runtime_shims.contract.manifest import MANIFEST_NAME, FileEntry, Manifest, to_json
from runtime_shims.contract.manifest_rules import DRAFT_MANIFEST
from runtime_shims.contract.onnx_names import WEIGHTS_NAME

TOKENIZER_DIRECTORY = "tokenizer"
CONFIG_NAME = "config.json"
GENERATION_CONFIG_NAME = "generation_config.json"
_ROLES = {
    "golden.json": "golden",
    "preprocessor_config.json": "preprocessor",
    CONFIG_NAME: "config",
    GENERATION_CONFIG_NAME: "config",
    MANIFEST_NAME: "draft",
}
_MANIFEST_MARK = b'"format_version"'
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class OutputError(SpecError):
    """An output path that cannot be written, or that already holds something."""


class WriteError(ExportFailed):
    """Writing broke off, most often because the disk is full."""


def check_output(output: Path, *, force: bool) -> None:
    """Refuse an output before any work: it exists (without `force`), is no bundle, has no parent, or is in a bundle.

    Raises:
        OutputError: says which and what to change.
    """
    if output.exists() or output.is_symlink():
        if not force:
            raise OutputError(
                str(output), ["already exists; give --force to replace it, or another output"]
            )
        if not _is_bundle(output):
            raise OutputError(str(output), ["exists and is no bundle, so --force does not replace it"])
        if output.is_symlink():
            raise OutputError(str(output), ["is a link; give the directory that it leads to"])
    if not output.absolute().parent.is_dir():
        raise OutputError(str(output), [f"the directory {output.parent} does not exist; create it first"])
    around = next((parent for parent in Path(os.path.realpath(output)).parents if _is_bundle(parent)), None)
    if around is not None:
        raise OutputError(str(output), [f"lies in the bundle {around}; give an --output outside of it"])


def _is_bundle(directory: Path) -> bool:
    """Whether a directory holds a manifest of ours, damaged or not; other tools have a file of that name too."""
    try:
        return _MANIFEST_MARK in (directory / MANIFEST_NAME).read_bytes()
    except OSError:
        return False


@contextmanager
def staging(output: Path) -> Iterator[Path]:
    """A directory beside `output` that is renamed to it on success and removed on any failure.

    Raises:
        OutputError: the place cannot be written at all.
        WriteError: writing failed on the way.
    """
    try:
        aside = Path(tempfile.mkdtemp(prefix=f".{output.name}.partial-", dir=output.absolute().parent))
    except OSError as error:
        raise OutputError(str(output), [f"cannot be written: {error.strerror}"]) from error
    try:
        aside.chmod(0o755)
        yield aside
        _replace(aside, output)
    except OSError as error:
        advice = "; free space and run it again" if error.errno in _NO_SPACE else ""
        fault = f"writing failed: {error.strerror or error}; nothing was kept{advice}"
        raise WriteError(str(output), [fault]) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _replace(aside: Path, output: Path) -> None:
    """Rename; an old bundle leaves only once the new one is in its place, and comes back when that fails."""
    if not output.exists():
        os.rename(aside, output)
        return
    old = aside.with_name(aside.name + ".old")
    try:
        os.rename(output, old)
        os.rename(aside, output)
    except BaseException:  # an interrupt too
        if not output.exists():
            os.rename(old, output)
        raise
    shutil.rmtree(old, ignore_errors=True)


def save_text_files(directory: Path, tokenizer: Any | None, processor: Any | None) -> None:
    """Tokenizer and preprocessor in transformers' own format, where the source has them.

    Raises:
        WriteError: one of them cannot be written.
    """
    target = directory / TOKENIZER_DIRECTORY
    for part in (tokenizer, processor):
        if part is None:
            continue
        try:
            part.save_pretrained(target)
        except OSError:
            raise
        except Exception as error:  # the Rust tokenizers raise plain exceptions, a full disk included
            raise WriteError(TOKENIZER_DIRECTORY, [f"writing failed: {one_line(error)}"]) from error


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """The manifest is written last: a directory without it is no bundle."""
    (directory / MANIFEST_NAME).write_text(to_json(manifest), encoding="utf-8")


def file_entries(directory: Path) -> tuple[FileEntry, ...]:
    """Every file with its role, size and SHA-256, in a stable order; of a bundle inside, its manifest."""
    inside = directory / Path(DRAFT_MANIFEST).parent
    paths = {path for path in directory.rglob("*") if path.is_file() and not path.is_relative_to(inside)}
    paths |= {inside / MANIFEST_NAME} if inside.is_dir() else set()
    return tuple(_entry(directory, path) for path in sorted(paths - {directory / MANIFEST_NAME}))


def _entry(directory: Path, path: Path) -> FileEntry:
    relative = path.relative_to(directory).as_posix()
    is_program = path.suffix in (".pte", ".onnx") or path.name == WEIGHTS_NAME
    role = _ROLES.get(path.name, "program" if is_program else "tokenizer")
    return FileEntry(path=relative, role=role, sha256=sha256_of(path), size_bytes=path.stat().st_size)  # type: ignore[arg-type]
