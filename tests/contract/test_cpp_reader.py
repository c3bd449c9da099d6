"""The C++ reader takes what the Python reader takes and refuses the rest with the same code in the same words.

The texts are those of the tests of the Python reader, and random edits of well-formed manifests. Where a text is not
JSON at all, each parser says so in its own words; everything else is equal to the letter.
"""

from __future__ import annotations

import copy
import json
import random
import shutil
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from cpp_reader import TOOL, Verdict, cpp_verdicts, python_verdict
from test_malformed_bundles import LEAVING_PATHS
from test_malformed_manifests import MANIFEST_CASES, NOT_STRICT_JSON
from test_manifest_rules import ASSISTED_CASES, CASES, ENCODER_CASES, ONNX_CASES, onnx_speech
from test_method_rules import ASSISTED_CASES as ASSISTED_METHODS
from test_method_rules import DECODE_CASES, ENCODE_CASES, with_input, with_method
from test_sound_rules import SOUND_CASES
from tiny_bundle import (
    CONTENTS,
    as_onnx,
    assisted_manifest,
    onnx_manifest,
    sound_manifest,
    speech_manifest,
    tiny_manifest,
    write_tiny_bundle,
)

from runtime_shims.contract.manifest import Manifest, to_json

pytestmark = pytest.mark.skipif(not TOOL.is_file(), reason="the C++ reader is not built; `make test-cpp` builds it")

CORPUS = Path(__file__).parents[1] / "cpp" / "fuzz" / "corpus"
PROGRAM = "model.xnnpack.pte"
RANDOM_EDITS = 1500
ODD_VALUES = [
    *(None, True, False, 0, 1, 2, 3, 5, 16, 17, 64, -1, 2**31, 2**53, 2**63 - 1, 2**63, 2**64, -(2**63), 10**300),
    *(0.0, -0.0, 0.5, 1.0, 2.5, 1e15, 1e16, 1.5e22, 1e-4, 1e-5, 123456.789, 1e300, -2e-7),
    *("", "a", "decode", "encode", "tokens", "batch", "float32", "int8", "float16", "onnx", "portable", "fused"),
    *("full", "sliding", "cross", "program", "two\nlines", "é", "𝄞", "it's", 'say "it\'s"', "\x7f\t\\", "x" * 70),
    *("A/B", "a/b/c", "../x", "tokenizer", "Manifest.json", "0" * 64, [], [1, 1], ["xnnpack", "xnnpack"], {}, {"a": 1}),
]


def data_of(manifest: Manifest) -> dict[str, Any]:
    """The manifest as data, however wrong it is: the writer would refuse it."""
    return json.loads(json.dumps(asdict(manifest)))


def assert_equal_verdicts(directory: Path, texts: Iterable[bytes | str]) -> list[Verdict]:
    """Both readers' verdicts on every text are the same; returns them."""
    paths = []
    for number, text in enumerate(texts):
        paths.append(directory / f"{number}.json")
        paths[-1].write_bytes(text if isinstance(text, bytes) else text.encode())
    found = cpp_verdicts(paths)
    wanted = [python_verdict(path) for path in paths]
    assert len(found) == len(wanted) > 0
    for cpp, python in zip(found, wanted, strict=True):
        assert cpp.without_syntax() == python.without_syntax()
    return found


def test_well_formed_manifests_are_taken(tmp_path: Path) -> None:
    bases = (tiny_manifest(), speech_manifest(), sound_manifest(), assisted_manifest())
    manifests = (*bases, onnx_manifest(), *(as_onnx(base) for base in bases))
    texts = [to_json(manifest) for manifest in manifests]
    assert {verdict.code for verdict in assert_equal_verdicts(tmp_path, texts)} == {"ok"}


def test_manifests_of_the_wrong_form_are_refused_alike(tmp_path: Path) -> None:
    texts = []
    for _, change, _ in MANIFEST_CASES:
        data = data_of(tiny_manifest())
        change(data)
        texts.append(json.dumps(data))
    for path in LEAVING_PATHS:
        data = data_of(tiny_manifest())
        data["files"][1]["path"] = path
        texts.append(json.dumps(data))
    texts += [json.dumps({"format_version": version}) for version in (0, 1, 2, 2**70, -(2**70), "2", 2.0, True)]
    assert "ok" not in {verdict.code for verdict in assert_equal_verdicts(tmp_path, texts)}


def test_what_is_not_strict_json_is_refused_alike(tmp_path: Path) -> None:
    texts = [text for text, _ in NOT_STRICT_JSON]
    texts += [b"{}\0", b"\0", b"\xef\xbb\xbf{}", b"[1,]", b"{} {}", b"[01]", b"[1.]", b"[.5]", b"[+1]", b"'a'", b"[tru"]
    texts += [b'"\xc0\xaf"', b'"\xed\xa0\x80"', b'"\xf4\x90\x80\x80"', b'"\xe2\x82', b'"\xe2\x28\xa1"', b'"\x80"']
    texts += [b'"\t"', b'"\\x"', b'"\\u12"', b"// no\n{}", b'{"a" 1}', b'{a: 1}', b'{"a": 1,}', b"[Infinity]", b"[-]"]
    texts += [b"[1e400, 1e-400]", b'{"a": {"b": 1, "c": [{"d": 1, "d": 1}]}, "a": 1}', b"[" * 400 + b"]" * 400, b"-0"]
    assert {verdict.code for verdict in assert_equal_verdicts(tmp_path, texts)} == {"manifest_invalid"}


def test_contradictions_are_refused_alike(tmp_path: Path) -> None:
    manifests = [change(tiny_manifest()) for change, _ in CASES]
    manifests += [change(speech_manifest()) for change, _ in (*CASES, *ENCODER_CASES)]
    manifests += [change(onnx_speech()) for change, _ in (*ONNX_CASES, *ENCODER_CASES)]
    manifests += [with_method(tiny_manifest(), "decode", change) for change, _ in DECODE_CASES]
    manifests += [
        with_method(speech_manifest(), "encode", with_input(index, tensor)) for index, tensor, _ in ENCODE_CASES
    ]
    manifests += [change(assisted_manifest()) for change, _ in (*CASES, *ASSISTED_CASES)]
    manifests += [with_method(assisted_manifest(), name, change) for name, change, _ in ASSISTED_METHODS]
    manifests += [change(sound_manifest()) for change, _ in (*CASES, *ENCODER_CASES, *SOUND_CASES)]
    texts = [json.dumps(data_of(manifest)) for manifest in manifests]
    verdicts = assert_equal_verdicts(tmp_path, texts)
    assert [verdict.code for verdict in verdicts[: len(CASES)]] == ["manifest_invalid"] * len(CASES)


def places(data: Any) -> list[tuple[Any, Any]]:
    """Every container of some JSON data with each of its keys or indices."""
    keys = data.keys() if isinstance(data, dict) else range(len(data)) if isinstance(data, list) else ()
    found = [(data, key) for key in keys]
    return found + [place for key in keys for place in places(data[key])]


def random_edit(data: dict[str, Any], dice: random.Random) -> None:
    """Change one value, or leave out, repeat or rename one part."""
    container, key = dice.choice(places(data))
    value = container[key]
    if type(value) is int and dice.random() < 0.5:
        container[key] = value + dice.choice([-1, 1, value])
    elif isinstance(container, list) and dice.random() < 0.5:
        container.insert(dice.randint(0, len(container)), copy.deepcopy(value))
    elif dice.random() < 0.6:
        container[key] = copy.deepcopy(dice.choice(ODD_VALUES))
    elif isinstance(container, list) or dice.random() < 0.5:
        del container[key]
    else:
        container[dice.choice(["größe", "a b", "_a1", "1a", "\n", "", f"{key}x"])] = container.pop(key)


def test_random_edits_are_judged_alike(tmp_path: Path) -> None:
    dice, texts, bases = random.Random(8), [], (tiny_manifest(), speech_manifest(), assisted_manifest())
    for number in range(RANDOM_EDITS):
        data = data_of(bases[number % 3])
        for _ in range(dice.choice([1, 1, 2, 5])):
            random_edit(data, dice)
        texts.append(json.dumps(data, ensure_ascii=bool(number % 4)))
    verdicts = assert_equal_verdicts(tmp_path, texts)
    codes = [verdict.code for verdict in verdicts]
    assert 0 < codes.count("ok") < RANDOM_EDITS / 10
    assert "format_too_new" in codes
    assert len({verdict.message.partition(": ")[2] for verdict in verdicts}) > RANDOM_EDITS / 3


def link_out(bundle: Path, name: str) -> None:
    outside = bundle.with_name(f"{bundle.name}-outside")
    shutil.move(bundle / name, outside)
    (bundle / name).symlink_to(outside)


def replace_by_link(bundle: Path, target: str) -> None:
    (bundle / PROGRAM).unlink()
    (bundle / PROGRAM).symlink_to(target)


def replace_by_directory(bundle: Path, name: str = PROGRAM) -> None:
    (bundle / name).unlink()
    (bundle / name).mkdir()


def rename_in_manifest(bundle: Path, path: str) -> None:
    manifest = bundle / "manifest.json"
    manifest.write_text(manifest.read_text().replace(PROGRAM, path))


DAMAGES: dict[str, Callable[[Path], object]] = {
    "none": lambda bundle: None,
    "no directory": shutil.rmtree,
    "no manifest": lambda bundle: (bundle / "manifest.json").unlink(),
    "a directory for a manifest": lambda bundle: replace_by_directory(bundle, "manifest.json"),
    "an empty manifest": lambda bundle: (bundle / "manifest.json").write_text(""),
    "a newer manifest": lambda bundle: (bundle / "manifest.json").write_text('{"format_version": 2}'),
    "a changed byte": lambda bundle: (bundle / PROGRAM).write_bytes(bytes(64)),
    "a byte too few": lambda bundle: (bundle / PROGRAM).write_bytes(bytes(63)),
    "a byte too many": lambda bundle: (bundle / PROGRAM).write_bytes(bytes(65)),
    "an empty file": lambda bundle: (bundle / PROGRAM).write_bytes(b""),
    "a missing file": lambda bundle: (bundle / PROGRAM).unlink(),
    "all files missing": lambda bundle: [(bundle / path).unlink() for path in CONTENTS],
    "a missing directory": lambda bundle: shutil.rmtree(bundle / "tokenizer"),
    "a file for a directory": lambda bundle: [shutil.rmtree(bundle / "tokenizer"), (bundle / "tokenizer").touch()],
    "a directory for a file": replace_by_directory,
    "a file linked out": lambda bundle: link_out(bundle, PROGRAM),
    "a directory linked out": lambda bundle: link_out(bundle, "tokenizer"),
    "the manifest linked out": lambda bundle: link_out(bundle, "manifest.json"),
    "a link to nothing inside": lambda bundle: replace_by_link(bundle, "nothing"),
    "a link to nothing outside": lambda bundle: replace_by_link(bundle, "../nothing"),
    "a link to nothing far outside": lambda bundle: replace_by_link(bundle, "/nothing/at/all"),
    "a link to itself": lambda bundle: replace_by_link(bundle, PROGRAM),
    "a link to another file": lambda bundle: replace_by_link(bundle, "tokenizer/tokenizer.json"),
    "a link out and in again": lambda bundle: replace_by_link(bundle, f"../{bundle.name}/manifest.json"),
    "a file that is not listed": lambda bundle: (bundle / "notes.txt").touch(),
    "a name too long for the disk": lambda bundle: rename_in_manifest(bundle, "x" * 300),
    "a name in other letters": lambda bundle: rename_in_manifest(bundle, "модель.pte"),
}


@pytest.mark.parametrize("check_hashes", [True, False])
def test_damaged_bundles_are_refused_alike(tmp_path: Path, check_hashes: bool) -> None:
    bundles = [write_tiny_bundle(tmp_path / f"{number}.bundle") for number in range(len(DAMAGES))]
    for bundle, damage in zip(bundles, DAMAGES.values(), strict=True):
        damage(bundle)
    found = dict(zip(DAMAGES, cpp_verdicts(bundles, check_hashes), strict=True))
    wanted = {name: python_verdict(bundle, check_hashes) for name, bundle in zip(DAMAGES, bundles, strict=True)}
    assert {name: verdict.without_syntax() for name, verdict in found.items()} == {
        name: verdict.without_syntax() for name, verdict in wanted.items()
    }
    assert found["none"].code == found["a file that is not listed"].code == "ok"
    assert found["a changed byte"].code == ("bundle_corrupt" if check_hashes else "ok")
    assert {verdict.code for verdict in found.values()} == {
        *("ok", "bundle_missing", "bundle_corrupt", "manifest_invalid", "format_too_new")
    }


def test_a_bundle_reached_through_a_link_is_taken(tmp_path: Path) -> None:
    bundle = write_tiny_bundle(tmp_path / "tiny.bundle")
    (tmp_path / "alias").symlink_to(bundle)
    assert cpp_verdicts([bundle, tmp_path / "alias"]) == [Verdict("ok", "")] * 2


@pytest.mark.parametrize(
    "manifest",
    [tiny_manifest(), speech_manifest(), sound_manifest(), assisted_manifest()],
    ids=["tiny", "speech", "sound", "assisted"],
)
def test_the_corpus_of_the_fuzz_test_is_what_the_writer_writes(
    manifest: Manifest, request: pytest.FixtureRequest
) -> None:
    name = request.node.callspec.id
    assert (CORPUS / f"{name}.json").read_text(encoding="utf-8") == to_json(manifest)
