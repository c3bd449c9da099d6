"""What bundle-runner refuses of ONNX bundles: Python's line and exit code, whatever is damaged, missing or edited."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import onnx
import pytest

from tests.runner.conftest import edit
from tests.runner.runner import RUNS_ONNX, Runner, needs_onnx, run_both
from tests.runner.test_bad_input import FAILED, USAGE, refused

Change = Callable[[dict[str, Any]], None]


def copied(bundle: Path, target: Path) -> Path:
    """A copy whose files may be changed."""
    shutil.copytree(bundle, target)
    return target


def fit_sizes(root: Path) -> None:
    manifest = json.loads((root / "manifest.json").read_text())
    for entry in manifest["files"]:
        entry["size_bytes"] = (root / entry["path"]).stat().st_size
    (root / "manifest.json").write_text(json.dumps(manifest))


def refused_alike(capsys: Any, bundle: Path, code: int) -> str:
    """The line in which both runtimes refuse the bundle, whose hashes nobody has checked."""
    found, wanted = run_both(capsys, bundle, "--ids", "5", "--no-verify")
    assert found == wanted
    assert (found.code, found.out) == (code, "")
    return found.err


@needs_onnx
@pytest.mark.parametrize("damage", ["cut", "emptied", "zeros"])
def test_a_damaged_graph_is_refused_in_one_line(
    onnx_gemma3: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    bundle = copied(onnx_gemma3, tmp_path / "my.bundle")
    data = (bundle / "decode.onnx").read_bytes()
    changed = {"cut": data[: len(data) // 2], "emptied": b"", "zeros": bytes(len(data))}[damage]
    (bundle / "decode.onnx").write_bytes(changed)
    fit_sizes(bundle)
    line = refused_alike(capsys, bundle, FAILED)
    assert line.startswith("decode.onnx: ONNX Runtime cannot load it (")
    assert line.count("\n") == 1


@needs_onnx
def test_weights_that_are_missing_or_few_are_refused(
    onnx_gemma3: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = copied(onnx_gemma3, tmp_path / "my.bundle")
    (bundle / "weights.bin").unlink()
    assert "weights.bin is missing" in refused_alike(capsys, bundle, FAILED)
    (bundle / "weights.bin").write_bytes(b"few")
    assert "weights.bin has 3 bytes, the manifest says" in refused_alike(capsys, bundle, FAILED)
    fit_sizes(bundle)
    assert "ONNX Runtime cannot load it" in refused_alike(capsys, bundle, FAILED)


@needs_onnx
def test_an_opset_that_the_runtime_does_not_know_is_refused_with_the_version_that_does(
    onnx_gemma3: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = copied(onnx_gemma3, tmp_path / "my.bundle")
    model = onnx.load(str(bundle / "decode.onnx"), load_external_data=False)
    model.opset_import[0].version = 99
    (bundle / "decode.onnx").write_bytes(model.SerializeToString())
    fit_sizes(bundle)
    line = refused_alike(capsys, bundle, USAGE)
    assert line.startswith("decode.onnx needs more than onnxruntime ")
    assert "this release writes opset 24; install a newer onnxruntime" in line


def grow_full_caches(manifest: dict[str, Any]) -> None:
    """120 becomes 130 wherever it follows from --max-dec."""
    grown = 0
    for cache in manifest["caches"]:
        if cache["kind"] == "full":
            before = cache["size_bytes"]
            cache["size_bytes"] = before // cache["slots"] * (cache["slots"] + 10)
            cache["reach"], cache["slots"] = cache["reach"] + 10, cache["slots"] + 10
            grown += cache["size_bytes"] - before
    manifest["recipe"]["max_dec"] = manifest["limits"]["max_dec"] = 130
    plan_more(manifest, grown)
    manifest["memory"]["cache_bytes"] += grown
    manifest["memory"]["activation_bytes"] -= grown


def plan_more(manifest: dict[str, Any], count: int) -> None:
    manifest["programs"][0]["planned_bytes"] += count
    for key in ("planned_bytes", "activation_bytes"):
        manifest["memory"][key] += count


def drop_last_cache(manifest: dict[str, Any]) -> None:
    size = manifest["caches"].pop()["size_bytes"]
    manifest["memory"]["cache_bytes"] -= size
    plan_more(manifest, -size)
    manifest["memory"]["activation_bytes"] += size


EDITS: list[tuple[Change, str]] = [
    (grow_full_caches, "tensor(float)[b, "),
    (drop_last_cache, "are listed, the program has"),
    (lambda manifest: manifest["caches"][0].update(layer=9), "present.9.key tensor(float)[b, "),
    (lambda manifest: plan_more(manifest, 1), "programs[0].planned_bytes: "),
    (lambda manifest: manifest["programs"][0]["methods"][0]["inputs"][0]["dims"][0].update(name="q"), "input_ids "),
]


@needs_onnx
@pytest.mark.parametrize(("change", "part"), EDITS, ids=["slots", "fewer", "layer", "planned", "rows"])
def test_a_manifest_that_agrees_with_itself_and_not_with_the_graphs_is_refused(
    onnx_gemma3: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Change, part: str
) -> None:
    bundle = copied(onnx_gemma3, tmp_path / "my.bundle")
    edit(bundle, change)
    assert part in refused_alike(capsys, bundle, FAILED)


@needs_onnx
def test_a_graph_whose_structure_is_damaged_is_refused_and_does_not_crash(
    runner: Runner, onnx_gemma3: Path, tmp_path: Path
) -> None:
    bundle = copied(onnx_gemma3, tmp_path / "torn.bundle")
    graph = bundle / "decode.onnx"
    whole = graph.read_bytes()
    draws = Random(5)
    for _ in range(12):
        start = draws.randrange(len(whole))
        graph.write_bytes(whole[:start] + draws.randbytes(8) + whole[start + 8 :])
        fit_sizes(bundle)
        ended = runner.run("--bundle", bundle, "--ids", "5", "--max-new-tokens", "2", "--no-verify")
        assert ended.code in (0, FAILED, USAGE), (start, ended.err)
        assert "Sanitizer" not in ended.err
        assert ended.code == 0 or ended.err, start


@needs_onnx
def test_more_than_fits_and_wrong_ids_are_refused_alike(onnx_gemma3: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in (["--ids", "5,64"], ["--ids", ",".join(["5"] * 121)], ["--ids", "5", "--backend", "xnnpack"]):
        found, wanted = run_both(capsys, onnx_gemma3, *wrong)
        assert found == wanted


@pytest.mark.skipif(RUNS_ONNX, reason="bundle-runner was built with FIXED_CAPACITY_ONNXRUNTIME")
def test_a_build_without_onnx_runtime_says_which_option_it_needs(runner: Runner, onnx_gemma3: Path) -> None:
    ended = runner.run("--bundle", onnx_gemma3, "--ids", "5")
    refused(ended, USAGE, "this build runs no ONNX programs; build it with -DFIXED_CAPACITY_ONNXRUNTIME=ON, or")
