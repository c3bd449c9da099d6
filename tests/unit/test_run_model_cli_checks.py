"""`run-model verify`, `inspect` and `bench` over programs in memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console
from runtime_doubles import BundleShape, HistoryProgram, make_manifest, write_bundle
from test_run_model_cli import golden, run

from runtime_shims.commands.inspect_memory import group_caches, memory_map
from runtime_shims.contract.bundle_reader import read_bundle
from runtime_shims.contract.errors import BundleCorrupt, FixedCapacityError, UserInputError
from runtime_shims.contract.formatting import format_bytes
from runtime_shims.reference.golden import read_golden
from runtime_shims.reference.replay import seeded_features

pytestmark = pytest.mark.usefixtures("programs")

SHAPE = BundleShape(backends=("xnnpack", "portable"), window=6, suppress=tuple(range(30, 50)))
PROGRAMS = {f"model.{name}.pte": ("program", name.encode()) for name in SHAPE.backends}


def make(tmp_path: Path, golden_bytes: bytes | None, shape: BundleShape = SHAPE) -> Path:
    contents = dict(PROGRAMS)
    if golden_bytes is not None:
        contents["golden.json"] = ("golden", golden_bytes)
    return write_bundle(tmp_path / "bundle", shape, contents)


def plain(tmp_path: Path, golden_bytes: bytes | None) -> Path:
    return make(tmp_path, golden_bytes, BundleShape(backends=SHAPE.backends))


def rungs(text: str) -> list[tuple[str, str, bool | None]]:
    return [(rung["subject"], rung["check"], rung["passed"]) for rung in json.loads(text)["rungs"]]


def test_verify_replays_every_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = plain(tmp_path, golden([5, 6]))
    assert run("verify", bundle, "--json") == 0
    checks = [("load", True), ("run", True), ("first logits", True), ("tokens", True)]
    expected = [("bundle", "files", True)]
    expected += [(backend, check, passed) for backend in SHAPE.backends for check, passed in checks]
    assert rungs(capsys.readouterr().out) == expected
    assert run("verify", bundle, "--backend", "portable") == 0
    table = capsys.readouterr().out
    assert "portable" in table
    assert "xnnpack" not in table


def test_verify_names_the_first_token_that_differs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = plain(tmp_path, golden([5, 6], wrong_token=True))
    assert run("verify", bundle) == 1
    printed = capsys.readouterr()
    assert "failed" in printed.out
    assert "request 0, row 0, new token 2: expected" in printed.err


def test_verify_measures_the_logits_before_the_tokens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = plain(tmp_path, golden([5, 6], shift=0.5))
    assert run("verify", bundle) == 1
    assert "first logits: largest difference 0.5, tolerance 0.001" in capsys.readouterr().err


def test_verify_skips_the_rungs_above_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = plain(tmp_path, golden([5, 6]))

    def broken(self: HistoryProgram, inputs: object) -> None:
        raise FixedCapacityError("model.pte: decode failed")

    monkeypatch.setattr(HistoryProgram, "decode", broken)
    assert run("verify", bundle, "--backend", "xnnpack", "--json") == 1
    assert rungs(capsys.readouterr().out)[1:] == [
        ("xnnpack", "load", True),
        ("xnnpack", "run", False),
        ("xnnpack", "first logits", None),
        ("xnnpack", "tokens", None),
    ]


def test_verify_refuses_a_changed_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = plain(tmp_path, golden([5, 6]))
    (bundle / "model.portable.pte").write_bytes(b"pOrtable")
    assert run("verify", bundle) == 1
    assert "model.portable.pte has changed" in capsys.readouterr().err


def test_verify_without_a_golden_file_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("verify", plain(tmp_path, None)) == 2
    assert "golden.json" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (b"{", "not JSON"),
        (b'{"requests": []}', "exactly the keys requests, tolerance"),
        (b'{"requests": 3, "tolerance": {"logits_abs": 1}, "features": null, "drafts": null}', "requests: expected a"),
        (b'{"requests": [], "tolerance": {"logits_abs": "x"}, "features": null, "drafts": null}', "a finite number"),
        (golden([5]).replace(b'"prompts": [[5]]', b'"prompts": [[5], [6]]'), "same number of rows"),
        (golden([5]).replace(b'"prompts": [[5]]', b'"prompts": [[true]]'), "requests[0].prompts"),
        (golden([5]).replace(b"null", b"[[1]]", 1).replace(b"null", b"3", 1), "exclude each other"),
    ],
)
def test_a_malformed_golden_file_is_refused(tmp_path: Path, text: bytes, part: str) -> None:
    bundle = read_bundle(plain(tmp_path, text))
    with pytest.raises(BundleCorrupt) as caught:
        read_golden(bundle)
    assert part in str(caught.value)


def test_seeded_features_are_the_same_every_time() -> None:
    assert seeded_features(3, 2, (4, 6)).equal(seeded_features(3, 2, (4, 6)))
    assert not seeded_features(3, 2, (4, 6)).equal(seeded_features(4, 2, (4, 6)))


def test_inspect_draws_the_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("inspect", make(tmp_path, golden([5])), "--width", 110) == 0
    drawn = capsys.readouterr().out
    for part in (
        "--max-batch",
        "sliding",
        "activations",
        "decode(input_ids int64[b, t], positions int64[b]",
        "b 1..8, t 1..5, r 1..4",
        "30, 31, 32",
        "(20 in all)",
        "model.portable.pte",
        "golden.json",
        "torch 2.13.0",
        "tables are not counted",
    ):
        assert part in drawn
    assert max(map(len, drawn.splitlines())) <= 110


def test_inspect_counts_the_model_inside_the_bundle(capsys: pytest.CaptureFixture[str]) -> None:
    target, draft = make_manifest(BundleShape()), make_manifest(BundleShape())
    taken = [memory.weights_bytes + memory.planned_bytes for memory in (target.memory, draft.memory)]
    console = Console(width=100)
    console.print(memory_map(target), memory_map(target, draft))
    alone, together = (line for line in capsys.readouterr().out.splitlines() if line.startswith("Memory: "))
    assert f"Memory: {format_bytes(taken[0])}, " in alone
    assert f"Memory: {format_bytes(sum(taken))}, " in together


def test_inspect_prints_the_manifest_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = make(tmp_path, None)
    assert run("inspect", bundle, "--json") == 0
    manifest = json.loads(capsys.readouterr().out)["manifest"]
    assert manifest == json.loads((bundle / "manifest.json").read_text())


def test_alike_layers_share_a_row(tmp_path: Path) -> None:
    caches = read_bundle(make(tmp_path, None)).manifest.caches
    assert [[entry.layer for entry in group] for group in group_caches(caches * 2)] == [[0, 0], [1, 1]]


def test_bench_measures_fills_and_widths(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = plain(tmp_path, golden([5, 6]))
    assert run("bench", bundle, "--rows", 2, "--repeats", 2, "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert [(fill["percent"], fill["positions"]) for fill in printed["fills"]] == [
        (5, 1),
        (50, 10),
        (100, 19),
    ]
    assert [width["tokens_per_row"] for width in printed["widths"]] == [1, 2, 3, 4]
    assert printed["program"] == "model.xnnpack.pte"
    assert printed["peak_rss_bytes"] > 0
    assert run("bench", bundle, "--fill", 50, "--repeats", 1) == 0
    assert "50 %" in capsys.readouterr().out


def test_bench_refuses_to_time_wrong_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = plain(tmp_path, golden([5, 6], wrong_token=True))
    assert run("bench", bundle, "--repeats", 1) == 1
    assert "not timed" in capsys.readouterr().err
    assert run("bench", bundle, "--repeats", 1, "--no-verify") == 0


@pytest.mark.parametrize(("option", "value"), [("--rows", 9), ("--fill", 0), ("--fill", 101)])
def test_a_bench_that_does_not_fit_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, value: int
) -> None:
    assert run("bench", plain(tmp_path, golden([5, 6])), option, value) == 2
    assert option in capsys.readouterr().err


def test_a_golden_file_for_speech_needs_a_speech_bundle(tmp_path: Path) -> None:
    from runtime_doubles import history_session

    from runtime_shims.reference.replay import golden_source

    text = golden([5]).replace(b'"features_seed": null', b'"features_seed": 3')
    (request,) = read_golden(read_bundle(plain(tmp_path, text))).requests
    with pytest.raises(UserInputError, match="speech features"):
        golden_source(history_session()[0], request)
