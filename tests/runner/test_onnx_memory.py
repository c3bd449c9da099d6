"""Steps of an ONNX program in C++ write caches in place and take no memory; integers of 32 bits are converted."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from tests.runner.runner import needs_onnx

pytestmark = needs_onnx

STEPS = Path(__file__).parents[2] / "build" / "dev" / "tests" / "cpp" / "onnx-steps"


UNKEPT = {**os.environ, "ASAN_OPTIONS": "quarantine_size_mb=0:thread_local_quarantine_size_kb=0"}
"""Memory that is given back is not kept by the sanitizer."""


def steps(*arguments: object) -> dict[str, Any]:
    done = subprocess.run([STEPS, *map(str, arguments)], capture_output=True, check=False, text=True, env=UNKEPT)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads the process's memory as Linux states it")
def test_steps_take_no_memory_for_caches(onnx_llama: Path) -> None:
    """800 rows: each of four caches has 40 MB. The control's outputs are memory of its own, which a step must fill."""
    few = [0, 1, 2, *range(300, 320)]
    found, longer = (steps(onnx_llama, 800, *positions) for positions in (few, [*few, *range(320, 400)]))
    control = steps("--apart", onnx_llama, 800, *few)
    cache = found["smallest_cache"]
    assert cache > 30_000_000
    assert longer["grown"] - found["grown"] < cache / 20  # 80 steps more
    assert control["grown"] - found["grown"] > 3 * cache


def test_a_graph_of_32_bit_integers_answers_as_one_of_64(onnx_llama: Path, tmp_path: Path) -> None:
    narrow = tmp_path / "narrow.bundle"
    shutil.copytree(onnx_llama, narrow)
    model = onnx.load(str(narrow / "decode.onnx"), load_external_data=False)
    for graph_input in model.graph.input:
        if graph_input.type.tensor_type.elem_type != TensorProto.INT64:
            continue
        graph_input.type.tensor_type.elem_type = TensorProto.INT32
        for node in model.graph.node:
            node.input[:] = [f"{name}_wide" if name == graph_input.name else name for name in node.input]
            rename_in_branches(node, graph_input.name)
        cast = helper.make_node("Cast", [graph_input.name], [f"{graph_input.name}_wide"], to=TensorProto.INT64)
        model.graph.node.insert(0, cast)
    (narrow / "decode.onnx").write_bytes(model.SerializeToString())
    fit_sizes(narrow)
    wide = steps(onnx_llama, 8, 0, 1, 2, 200)
    assert steps("--int32", narrow, 8, 0, 1, 2, 200)["logits"] == wide["logits"]
    assert any(wide["logits"])


def rename_in_branches(node: onnx.NodeProto, name: str) -> None:
    """Branches of an `If` read the names around them."""
    for attribute in node.attribute:
        for inner in attribute.g.node:
            inner.input[:] = [f"{name}_wide" if found == name else found for found in inner.input]
            rename_in_branches(inner, name)


def fit_sizes(root: Path) -> None:
    manifest = json.loads((root / "manifest.json").read_text())
    for entry in manifest["files"]:
        entry["size_bytes"] = (root / entry["path"]).stat().st_size
    (root / "manifest.json").write_text(json.dumps(manifest))
