"""A manifest that is not JSON, or not of the expected form, is refused in one line that names the place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from refusals import EDITED, edit, refused_line

from runtime_shims.contract.bundle_reader import read_bundle
from runtime_shims.contract.errors import ManifestInvalid

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

NOT_STRICT_JSON: list[tuple[bytes, str]] = [
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
    NOT_STRICT_JSON,
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
