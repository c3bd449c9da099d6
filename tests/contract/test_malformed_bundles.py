"""Each way a bundle can be wrong is refused in exactly one line that says what is wrong and what to do."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tiny_bundle import CONTENTS, PROGRAM_BYTES, tiny_manifest, write_tiny_bundle

from runtime_shims.contract.bundle_reader import read_bundle
from runtime_shims.contract.errors import (
    BundleCorrupt,
    BundleError,
    BundleMissing,
    FormatTooNew,
    ManifestInvalid,
    UserInputError,
)

EDITED = "the file was edited or damaged: export the model again"
REPAIR = "copy the bundle again or export the model again"
GIVE = "give the directory that export-model wrote"


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return write_tiny_bundle(tmp_path / "tiny.bundle")


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


def test_a_backend_that_was_not_exported_is_refused_by_name(bundle: Path) -> None:
    with pytest.raises(UserInputError) as refusal:
        read_bundle(bundle).program("onnx")
    assert str(refusal.value) == (
        "this bundle has no onnx program, it has xnnpack; export it with --backend onnx"
    )


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


@pytest.mark.parametrize(
    "path",
    [
        "../x",
        "a/../../x",
        "..",
        ".",
        "./x",
        "a/./x",
        "/etc/x",
        "",
        "a//x",
        "a/",
        "C:x",
        "..\\x",
        "a\n",
        "a\0",
    ],
)
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


MANIFEST_CASES: list[tuple[str, Callable[[dict[str, Any]], object], str]] = [
    (
        "an extra key",
        lambda data: data["limits"].update(max_btach=8),
        "limits.max_btach: unknown key, allowed are max_batch, max_enc, max_dec, max_draft, max_step, "
        "max_logit_rows, source_shape",
    ),
    ("a missing key", lambda data: data["limits"].pop("max_batch"), "limits.max_batch: missing key"),
    (
        "a missing nullable key",
        lambda data: data["source"].pop("revision"),
        "source.revision: missing key",
    ),
    (
        "a text for a number",
        lambda data: data["limits"].update(max_batch="8"),
        'limits.max_batch: expected an integer >= 1, got "8"',
    ),
    (
        "a fraction for a number",
        lambda data: data["limits"].update(max_batch=2.0),
        "limits.max_batch: expected an integer >= 1, got 2.0",
    ),
    (
        "true for a number",
        lambda data: data["limits"].update(max_batch=True),
        "limits.max_batch: expected an integer >= 1, got true",
    ),
    (
        "a number of more than 64 bits",
        lambda data: data["source"].update(parameter_count=2**63),
        "source.parameter_count: expected an integer >= 0, got 9223372036854775808",
    ),
    (
        "a number for a flag",
        lambda data: data["source"].update(random_weights=1),
        "source.random_weights: expected true or false, got 1",
    ),
    (
        "null where there must be a value",
        lambda data: data["recipe"].update(max_dec=None),
        "recipe.max_dec: expected an integer >= 1, got null",
    ),
    (
        "an unknown choice",
        lambda data: data.update(kind="encoder_only"),
        'kind: expected one of "decoder_only", "text_seq2seq", "speech_seq2seq", got "encoder_only"',
    ),
    (
        "an object for a list",
        lambda data: data.update(caches={}),
        "caches: expected a list, got an object",
    ),
    (
        "a list for an object",
        lambda data: data.update(tokens=[1]),
        "tokens: expected an object, got a list of 1",
    ),
    (
        "a hash in capitals",
        lambda data: data["files"][0].update(sha256="A" * 64),
        f'files[0].sha256: expected a SHA-256 of 64 lower-case hexadecimal digits, got "{"A" * 59}...',
    ),
    (
        "an older version that never was",
        lambda data: data.update(format_version=0),
        "format_version: expected an integer >= 1, got 0",
    ),
    (
        "a wrong type deep inside",
        lambda data: data["programs"][0]["methods"][0]["inputs"][1]["dims"][0].update(name=7),
        "programs[0].methods[0].inputs[1].dims[0].name: expected a text that is not empty or null, got 7",
    ),
    (
        "an extra key that is not a name",
        lambda data: data["generation"].update({"top k\n": 1}),
        'generation."top k\\n": unknown key, allowed are max_new_tokens',
    ),
]


@pytest.mark.parametrize(
    ("change", "fault"), [case[1:] for case in MANIFEST_CASES], ids=[case[0] for case in MANIFEST_CASES]
)
def test_a_manifest_of_the_wrong_form_is_refused_in_one_line(
    bundle: Path, change: Callable[[dict[str, Any]], object], fault: str
) -> None:
    edit(bundle, change)
    assert refused_line(bundle, ManifestInvalid) == f"/manifest.json: {fault}; {EDITED}"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (b"", "not JSON: Expecting value at line 1, column 1"),
        (b'{"kind": ', "not JSON: Expecting value at line 1, column 10"),
        (b"PK\x03\x04\xff\xfe", "not UTF-8 text (byte 4)"),
        (b'{"kind": 1, "kind": 2}', 'key "kind" is given twice in one object'),
        (b'{"a": {"x": 1, "x": 1}}', 'key "x" is given twice in one object'),
        (b'{"kind": NaN}', "holds NaN, which is not a JSON number"),
        (b'{"kind": -Infinity}', "holds -Infinity, which is not a JSON number"),
        (b'{"kind": ' + b"9" * 5000 + b"}", "holds a number of too many digits"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[]", "top level: expected an object, got a list of 0"),
        (b"null", "top level: expected an object, got null"),
    ],
    ids=lambda value: value[:20].decode("latin-1") if isinstance(value, bytes) else "",
)
def test_a_manifest_that_is_not_strict_json_is_refused_in_one_line(
    bundle: Path, text: bytes, fault: str
) -> None:
    (bundle / "manifest.json").write_bytes(text)
    assert refused_line(bundle, ManifestInvalid) == f"/manifest.json: {fault}; {EDITED}"


def test_all_faults_of_a_manifest_are_listed_at_once(bundle: Path) -> None:
    def change(data: dict[str, Any]) -> None:
        data["limits"].update(max_batch="8", extra=1)
        data["caches"][1].pop("slots")

    edit(bundle, change)
    with pytest.raises(ManifestInvalid) as refusal:
        read_bundle(bundle)
    assert [fault.split(":")[0] for fault in refusal.value.faults] == [
        "limits.extra",
        "limits.max_batch",
        "caches[1].slots",
    ]
    assert str(refusal.value).count("\n") == 3
