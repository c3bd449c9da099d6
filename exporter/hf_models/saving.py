"""Copies of a bundle: into a directory, and to the Hub."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from exporter.bundle.writer import OutputError
from exporter.hf_models.model_card import model_card
from exporter.spec.faults import ExportFailed, one_line
from runtime_shims.contract.bundle_reader import Bundle
from runtime_shims.contract.errors import UserInputError
from runtime_shims.contract.manifest import MANIFEST_NAME

CARD_NAME = "README.md"
COMMIT = ("commit_message", "commit_description", "revision", "create_pr")
REPOSITORY = ("private", "token", "license")


class SaveFailed(ExportFailed):
    """A file of the copy could not be written."""


class PushFailed(ExportFailed):
    """The Hub refused an upload, or could not be reached."""


def save_bundle(bundle: Bundle, directory: Path, licence: str | None = None) -> None:
    """Copy the bundle into `directory`, which is made if need be, and write its model card.

    Raises:
        OutputError: the directory is a file, or holds another bundle or a checkpoint.
        SaveFailed: a file cannot be written.
    """
    if directory.exists() and not directory.is_dir():
        raise OutputError(str(directory), ["it is a file; give a directory"])
    manifest = directory / MANIFEST_NAME
    if manifest.is_file() and manifest.read_bytes() != (bundle.root / MANIFEST_NAME).read_bytes():
        raise OutputError(str(directory), ["it holds another bundle; give another directory"])
    if not manifest.is_file() and any(directory.glob("*.safetensors")):  # whose settings the bundle's would replace
        raise OutputError(str(directory), ["it holds a checkpoint; give another directory"])
    try:
        for path in bundle_files(bundle):
            target = directory / path.relative_to(bundle.root)
            target.parent.mkdir(parents=True, exist_ok=True)
            if not (target.exists() and target.samefile(path)):
                shutil.copyfile(path, target)
        (directory / CARD_NAME).write_text(model_card(bundle.manifest, licence), encoding="utf-8")
    except OSError as error:
        raise SaveFailed(str(directory), [f"it cannot be written: {one_line(error)}"]) from error


def bundle_files(bundle: Bundle) -> Iterator[Path]:
    """Every file that makes up the bundle, and the one that drafts for it; manifests last, which make them bundles."""
    draft = bundle.draft(check_hashes=False)
    if draft is not None:
        yield from bundle_files(draft)
    inside = {entry.path for entry in bundle.manifest.files if entry.role == "draft"}
    yield from (bundle.root / entry.path for entry in bundle.manifest.files if entry.path not in inside)
    yield bundle.root / MANIFEST_NAME


def push_bundle(bundle: Bundle, repo_id: str, options: Mapping[str, Any]) -> str:
    """Make the repository if need be, and commit the bundle with its model card; the address of the commit.

    Raises:
        UserInputError: an option that does not exist.
        PushFailed: the Hub says no, or nothing.
    """
    from huggingface_hub import CommitOperationAdd, HfApi

    check_options("push_to_hub", options)
    card = model_card(bundle.manifest, options.get("license")).encode()
    files = [(path.relative_to(bundle.root).as_posix(), path) for path in bundle_files(bundle)]
    operations = [CommitOperationAdd(name, path) for name, path in files]
    commit = {name: options[name] for name in COMMIT if name in options}
    commit.setdefault("commit_message", "Upload a fixed-capacity bundle")
    try:
        api = HfApi(token=options.get("token"))
        made = api.create_repo(repo_id, private=options.get("private"), exist_ok=True)
        return api.create_commit(made.repo_id, [*operations, CommitOperationAdd(CARD_NAME, card)], **commit).commit_url
    except Exception as error:  # the Hub's client raises a dozen kinds, and those of its HTTP library
        raise PushFailed(repo_id, [f"it cannot be pushed: {one_line(error)}"]) from error


def check_options(method: str, options: Mapping[str, Any]) -> None:
    """Raise UserInputError for options that neither a card nor an upload has."""
    known = (*COMMIT, *REPOSITORY)
    unknown = [name for name in options if name not in known]
    if unknown:
        raise UserInputError(f"{method} has no {', '.join(unknown)}; there are {', '.join(known)}")
