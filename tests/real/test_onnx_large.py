"""Weights in fp32 above 2 GB, the most that one ONNX file may hold: few layers, wide, a small vocabulary."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from transformers import LlamaConfig

from runtime_shims.contract.bundle_reader import read_bundle
from runtime_shims.reference.generation import generate
from runtime_shims.reference.loading import open_session
from tests.real.exports import run_measured, script

pytestmark = pytest.mark.real

LARGEST_FILE = 2**31


def test_weights_above_two_gigabytes_are_exported_loaded_and_stored_once(tmp_path: Path) -> None:
    config = LlamaConfig(
        vocab_size=512,
        hidden_size=6144,
        intermediate_size=24_576,
        num_hidden_layers=1,
        num_attention_heads=48,
        num_key_value_heads=8,
        max_position_embeddings=64,
        tie_word_embeddings=True,
        architectures=["LlamaForCausalLM"],
    )
    config.save_pretrained(tmp_path / "large")
    path = tmp_path / "large.bundle"
    options = ["--random-weights", "--backend", "onnx", "--max-dec", "64", "--prefill-chunk", "8", "--json"]
    exported = run_measured([script("export-model"), str(tmp_path / "large"), *options, "-o", str(path)])
    report = json.loads(exported.printed)
    assert report["weights_bytes"] > LARGEST_FILE
    written = sum(report["programs"].values())  # norms that are still all ones are stored once
    assert written == pytest.approx(report["weights_bytes"], rel=0.03)
    assert (path / "decode.onnx").stat().st_size < 10_000_000
    session = open_session(read_bundle(path, check_hashes=False))
    (answer,) = generate(session, [[5, 9, 200, 41]], max_new_tokens=8)
    assert len(answer.tokens) == 8
