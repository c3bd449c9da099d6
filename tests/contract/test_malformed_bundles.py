"""Each way a bundle can be wrong is refused in exactly one line that says what is wrong and what to do."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from refusals import EDITED, edit, refused_line
from tiny_bundle import CONTENTS, PROGRAM_BYTES, tiny_manifest

from runtime_shims.contract.bundle_reader import read_bundle
from runtime_shims.contract.errors import (
    BundleCorrupt,
    BundleMissing,
    FormatTooNew,
    ManifestInvalid,
    UserInputError,
)

REPAIR = "copy the bundle again or export the model again"
GIVE = "give the directory that export-model wrote"
LEAVING_PATHS = [
    *("../x", "a/../../x", "..", ".", "./x", "a/./x", "/etc/x", ""),
    *("a//x", "a/", "C:x", "..\\x", "a\n", "a\0"),
]


def test_a_well_formed_bundle_is_read_and_gives_its_program_and_files(bundle: Path) -> None:
    found = read_bundle(bundle)
    assert found.manifest == tiny_manifest()
    assert found.program() is found.program("xnnpack")
    for path, contents in CONTENTS.items():
        assert found.file(path).read_bytes() == contents


def test_a_file_beside_the_listed_ones_is_ignored_and_cannot_be_reached(bundle: Path) -> None:
    (bundle / "notes.txt").write_text("mine")
    with pytest.raises(UserInputError, match=r"lists no file 'notes.txt'; it lists model.xnnpack.pte, tok"):
        read_bundle(bundle).file("notes.txt")


@pytest.mark.parametrize(
    ("backend", "advice"),
    [
        ("portable", "give --backend xnnpack, or export the model with --backend portable"),
        ("onnx", "give --backend xnnpack, or export the model with --backend onnx"),
        ("a\nb", "give --backend xnnpack"),
    ],
)
def test_a_backend_that_was_not_exported_is_refused_and_only_what_can_be_exported_is_advised(
    bundle: Path, backend: str, advice: str
) -> None:
    with pytest.raises(UserInputError) as refusal:
        read_bundle(bundle).program(backend)
    assert str(refusal.value) == f"this bundle has no {backend!r} program, it has xnnpack; {advice}"


def test_a_path_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    line = refused_line(tmp_path / "absent", BundleMissing)
    assert line == f": there is no such directory; {GIVE}"


def test_a_file_in_place_of_a_directory_is_refused(bundle: Path) -> None:
    line = refused_line(bundle / "model.xnnpack.pte", BundleMissing)
    assert line == f": a bundle is a directory, this is a file; {GIVE}"


def test_an_empty_directory_is_refused(tmp_path: Path) -> None:
    assert refused_line(tmp_path, BundleMissing) == f": there is no manifest.json in it; {GIVE}"


def test_a_changed_byte_is_refused(bundle: Path) -> None:
    changed = bytearray(PROGRAM_BYTES)
    changed[10] ^= 1
    (bundle / "model.xnnpack.pte").write_bytes(changed)
    line = refused_line(bundle, BundleCorrupt)
    assert line.startswith(": model.xnnpack.pte has changed: its SHA-256 is ")
    assert line.endswith(f"; {REPAIR}")


def test_a_changed_byte_passes_when_hashes_are_not_checked(bundle: Path) -> None:
    (bundle / "model.xnnpack.pte").write_bytes(bytes(len(PROGRAM_BYTES)))
    assert read_bundle(bundle, check_hashes=False).manifest == tiny_manifest()


@pytest.mark.parametrize("check_hashes", [True, False])
def test_a_truncated_file_is_refused_even_when_hashes_are_not_checked(
    bundle: Path, check_hashes: bool
) -> None:
    (bundle / "model.xnnpack.pte").write_bytes(PROGRAM_BYTES[:-1])
    with pytest.raises(BundleCorrupt) as refusal:
        read_bundle(bundle, check_hashes)
    assert str(refusal.value) == f"{bundle}: model.xnnpack.pte has 63 bytes, the manifest says 64; {REPAIR}"


def test_a_missing_file_is_refused(bundle: Path) -> None:
    (bundle / "tokenizer" / "tokenizer.json").unlink()
    assert refused_line(bundle, BundleCorrupt) == f": tokenizer/tokenizer.json is missing; {REPAIR}"


def test_a_directory_in_place_of_a_file_is_refused(bundle: Path) -> None:
    (bundle / "model.xnnpack.pte").unlink()
    (bundle / "model.xnnpack.pte").mkdir()
    assert refused_line(bundle, BundleCorrupt) == f": model.xnnpack.pte is not a file; {REPAIR}"


def test_all_files_that_are_wrong_are_listed_at_once(bundle: Path) -> None:
    for path in CONTENTS:
        (bundle / path).unlink()
    with pytest.raises(BundleCorrupt) as refusal:
        read_bundle(bundle)
    assert str(refusal.value).splitlines() == [
        f"{bundle}: 2 faults; {REPAIR}",
        "  model.xnnpack.pte is missing",
        "  tokenizer/tokenizer.json is missing",
    ]


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="needs symbolic links")
@pytest.mark.parametrize("linked", ["model.xnnpack.pte", "tokenizer"])
def test_a_link_that_leads_out_of_the_bundle_is_refused(bundle: Path, linked: str) -> None:
    outside = bundle.parent / "outside"
    shutil.move(bundle / linked, outside)
    (bundle / linked).symlink_to(outside)
    listed = "model.xnnpack.pte" if linked != "tokenizer" else "tokenizer/tokenizer.json"
    assert (
        refused_line(bundle, BundleCorrupt) == f": {listed} is a link that leads out of the bundle; {REPAIR}"
    )


def test_a_manifest_that_is_a_link_out_of_the_bundle_is_refused(bundle: Path) -> None:
    outside = bundle.parent / "outside.json"
    shutil.move(bundle / "manifest.json", outside)
    (bundle / "manifest.json").symlink_to(outside)
    line = refused_line(bundle, BundleCorrupt)
    assert line == f": manifest.json is a link that leads out of the bundle; {REPAIR}"


def test_a_link_that_goes_round_in_circles_is_refused(bundle: Path) -> None:
    (bundle / "model.xnnpack.pte").unlink()
    (bundle / "model.xnnpack.pte").symlink_to("model.xnnpack.pte")
    refused_line(bundle, BundleCorrupt)


def test_a_link_within_the_bundle_and_a_link_to_the_bundle_are_followed(bundle: Path) -> None:
    shutil.move(bundle / "model.xnnpack.pte", bundle / "blob")
    (bundle / "model.xnnpack.pte").symlink_to("blob")
    alias = bundle.parent / "alias"
    alias.symlink_to(bundle)
    assert read_bundle(alias).manifest == tiny_manifest()


@pytest.mark.parametrize("path", LEAVING_PATHS)
def test_a_path_that_could_leave_the_bundle_is_refused(bundle: Path, path: str) -> None:
    edit(bundle, lambda data: data["files"][1].update(path=path))
    line = refused_line(bundle, ManifestInvalid)
    assert line == (
        '/manifest.json: files[1].path: expected a relative path inside the bundle ("/" between names; '
        f'no "..", "\\" or ":"), got {json.dumps(path)}; {EDITED}'
    )


def test_a_newer_version_is_refused_before_anything_else_is_looked_at(bundle: Path) -> None:
    edit(bundle, lambda data: (data.clear(), data.update(format_version=2, anything="new")))
    assert refused_line(bundle, FormatTooNew) == (
        "/manifest.json: format_version is 2, this version reads up to 1; "
        "upgrade fixed-capacity or export the model again"
    )
