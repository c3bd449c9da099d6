"""A manifest whose parts contradict each other is refused, by the reader and by the writer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tiny_bundle import (
    BATCH,
    MAX_DEC,
    VOCABULARY,
    as_onnx,
    assisted_manifest,
    cache,
    file_entry,
    integers,
    speech_manifest,
    tiny_manifest,
)

from runtime_shims.contract.errors import ManifestInvalid
from runtime_shims.contract.manifest import (
    Assistant,
    Dim,
    ForcedToken,
    Manifest,
    PackageVersion,
    Speech,
    from_json,
    to_json,
)

Change = Callable[[Manifest], Manifest]


def part(name: str, /, **values: Any) -> Change:
    """Replace fields of one part of the manifest."""
    return lambda manifest: replace(manifest, **{name: replace(getattr(manifest, name), **values)})


def item(name: str, index: int, /, **values: Any) -> Change:
    """Replace fields of one entry of a list of the manifest."""

    def change(manifest: Manifest) -> Manifest:
        entries = list(getattr(manifest, name))
        entries[index] = replace(entries[index], **values)
        return replace(manifest, **{name: tuple(entries)})

    return change


def more(name: str, *entries: Any) -> Change:
    """Append entries to a list of the manifest."""
    return lambda manifest: replace(manifest, **{name: getattr(manifest, name) + entries})


def first_input_dims(*dims: Dim) -> Change:
    """Replace the dimensions of the first input of the first method."""

    def change(manifest: Manifest) -> Manifest:
        program = manifest.programs[0]
        method = program.methods[0]
        method = replace(method, inputs=(integers("input_ids", *dims), *method.inputs[1:]))
        return replace(manifest, programs=(replace(program, methods=(method, *program.methods[1:])),))

    return change


def no_methods(manifest: Manifest) -> Manifest:
    return item("programs", 0, methods=())(manifest)


CASES: list[tuple[Change, str]] = [
    (part("limits", max_batch=3), "limits.max_batch: expected 2 (recipe.max_batch), got 3"),
    (part("limits", max_draft=1), "limits.max_draft: expected 2 (recipe.max_draft), got 1"),
    (
        part("limits", max_step=5),
        "limits.max_step: expected 4 (max(prefill_chunk, max_draft + 1)), got 5",
    ),
    (
        part("recipe", prefill_chunk=1),
        "limits.max_step: expected 3 (max(prefill_chunk, max_draft + 1)), got 4",
    ),
    (part("limits", max_logit_rows=4), "limits.max_logit_rows: expected 3 (max_draft + 1), got 4"),
    (
        part("limits", source_shape=(3, 10)),
        "limits.source_shape: expected none (kind is decoder_only), got one",
    ),
    (
        lambda manifest: replace(manifest, speech=Speech(16_000, 60, None)),
        "speech: expected none (kind is decoder_only), got one",
    ),
    (
        more("caches", cache("cross0", 0, "cross", 5)),
        "caches of kind cross: expected none (kind is decoder_only), got one",
    ),
    (item("caches", 1, slots=6), "caches[1].slots: expected 7 (reach + max_step - 1), got 6"),
    (item("caches", 0, reach=15, slots=18), "caches[0].reach: expected 16 (max_dec), got 15"),
    (item("caches", 1, reach=17, slots=20), "caches[1].reach: expected at most 16 (max_dec), got 17"),
    (item("caches", 1, layer=0), "caches, self-attention layers: 0 is listed 2 times"),
    (item("caches", 1, name="layer0"), "caches, names: 'layer0' is listed 2 times"),
    (
        item("caches", 1, key_dim=9),
        "caches[1].size_bytes: expected 1904 "
        "(max_batch * kv_heads * slots * 68 for key_dim and value_dim in float32), got 1792",
    ),
    (
        part("memory", planned_bytes=9000, activation_bytes=9000 - 6656),
        "memory.planned_bytes: expected 7156 (largest planned_bytes of a program), got 9000",
    ),
    (
        part("memory", activation_bytes=0),
        "memory.activation_bytes: expected 500 (planned_bytes - caches), got 0",
    ),
    (part("memory", cache_bytes=1), "memory.cache_bytes: expected 6656 (sum over caches), got 1"),
    (
        item("programs", 0, file="other.pte"),
        'programs[0].file: "other.pte" is not listed under files with role "program"',
    ),
    (
        item("programs", 0, file="tokenizer/tokenizer.json"),
        'programs[0].file: "tokenizer/tokenizer.json" is not listed under files with role "program"',
    ),
    (
        item("programs", 0, backend="portable"),
        "programs, backends: expected xnnpack (recipe.backends), got portable",
    ),
    (
        item("programs", 0, format="onnx"),
        "programs[0].format: expected executorch (backend xnnpack), got onnx",
    ),
    (
        item("programs", 0, operator_library_required=False),
        "programs[0].operator_library_required: expected True "
        "(format executorch, attention fused), got False",
    ),
    (lambda manifest: replace(manifest, programs=()), "programs: expected at least one, got none"),
    (no_methods, 'programs[0].methods: there is no "decode"'),
    (
        first_input_dims(BATCH, Dim("step", 5, 4)),
        "programs[0], decode, input_ids, dim 1: minimum 5 is above maximum 4",
    ),
    (
        first_input_dims(BATCH, Dim(None, 1, 4)),
        "programs[0], decode, input_ids, dim 1: a dimension of several sizes needs a name",
    ),
    (
        first_input_dims(BATCH, Dim("batch", 1, 4)),
        "programs[0], decode, input_ids, dim 1: batch is (1, 4), but (1, 2) before",
    ),
    (part("tokens", vocab_size=65), "tokens.vocab_size: expected 64 (source.vocab_size), got 65"),
    (part("tokens", eos=(VOCABULARY,)), "tokens.eos: expected ids below 64, got 64"),
    (part("tokens", pad=99), "tokens.pad: expected ids below 64, got 99"),
    (part("tokens", suppress=(5, 5)), "tokens.suppress: 5 is listed 2 times"),
    (
        part("tokens", forced=(ForcedToken(3, 7), ForcedToken(3, 8))),
        "tokens.forced, positions: 3 is listed 2 times",
    ),
    (
        part("tokens", forced=(ForcedToken(MAX_DEC, 7),)),
        "tokens.forced: expected positions below 16, got 16",
    ),
    (part("tokens", start=(1,) * 17), "tokens.start: expected at most 16 tokens, got 17"),
    (
        more("files", file_entry("Tokenizer/tokenizer.json", b"", "tokenizer")),
        "files, paths: 'tokenizer/tokenizer.json' is listed 2 times",
    ),
    (more("files", file_entry("Manifest.json", b"", "config")), "files: manifest.json cannot list itself"),
    (more("files", file_entry("tokenizer", b"", "config")), 'files: "tokenizer" is also a directory'),
    (
        part("recipe", draft="self-int4"),
        'files with role "draft": expected draft/manifest.json (recipe.draft is "self-int4"), got none',
    ),
    (
        more("files", file_entry("draft/manifest.json", b"", "draft")),
        'files with role "draft": expected none (recipe.draft is null), got draft/manifest.json',
    ),
    (part("source", seed=None), "source.seed: expected an integer (the weights are random), got null"),
    (part("source", random_weights=False), "source.seed: expected null (the weights are not random), got 0"),
    (
        lambda manifest: replace(manifest, quantization="8da4w"),
        "quantization: expected none (recipe.quantize), got 8da4w",
    ),
    (more("packages", PackageVersion("torch", "2.12")), "packages, names: 'torch' is listed 2 times"),
]

ENCODER_CASES: list[tuple[Change, str]] = [
    (
        part("limits", source_shape=None),
        "limits.source_shape: expected a value (kind is speech_seq2seq), got none",
    ),
    (
        lambda manifest: replace(manifest, caches=manifest.caches[:2]),
        "caches of kind cross: expected a value (kind is speech_seq2seq), got none",
    ),
    (
        part("tokens", start=()),
        "tokens.start: expected at least one token (kind is speech_seq2seq), got none",
    ),
    (item("caches", 2, slots=6), "caches[2].slots: expected 5 (max_enc), got 6"),
    (item("caches", 2, reach=4), "caches[2].reach: expected 5 (max_enc), got 4"),
    (part("recipe", max_enc=None), "limits.max_enc: expected None (recipe.max_enc), got 5"),
    (no_methods, 'programs[0].methods: there is no "encode"'),
    (
        lambda manifest: replace(manifest, assistant=Assistant(6)),
        "assistant: expected none (kind is speech_seq2seq), got one",
    ),
]

ASSISTED_CASES: list[tuple[Change, str]] = [
    (
        lambda manifest: replace(manifest, assistant=None),
        'programs[0].methods: there is a "draft", but assistant is null',
    ),
    (no_methods, 'programs[0].methods: there is no "draft"'),
    (
        more("files", file_entry("draft/manifest.json", b"", "draft")),
        'files with role "draft": expected none (recipe.draft is "tiny-assistant", an assistant), '
        "got draft/manifest.json",
    ),
    (
        lambda manifest: part("recipe", draft=None)(
            more("files", file_entry("draft/manifest.json", b"", "draft"))(manifest)
        ),
        'files with role "draft": expected none (recipe.draft is null, an assistant), got draft/manifest.json',
    ),
]


@pytest.mark.parametrize(
    "manifest", [tiny_manifest(), speech_manifest(), assisted_manifest()], ids=["tiny", "speech", "assisted"]
)
def test_a_consistent_manifest_survives_writing_and_reading(manifest: Manifest) -> None:
    text = to_json(manifest)
    assert from_json(text) == manifest
    assert to_json(from_json(text.encode())) == text


ONNX_CASES: list[tuple[Change, str]] = [
    (item("programs", 0, attention="fused"), "programs[0].attention: expected portable (format onnx), got fused"),
    (
        item("programs", 0, file="onnx/model.onnx"),
        "programs[0].file: expected onnx/decode.onnx (format onnx), got onnx/model.onnx",
    ),
    (
        item("files", 3, path="onnx/weights.data"),
        'programs[0]: "onnx/weights.bin" is not listed under files with role "program"',
    ),
    (
        item("files", 1, role="tokenizer"),
        'programs[0]: "onnx/encode.onnx" is not listed under files with role "program"',
    ),
    (item("programs", 0, format="executorch"), "programs[0].format: expected onnx (backend onnx), got executorch"),
]


def onnx_speech() -> Manifest:
    """An ONNX program of several methods: files are those of features, encode, decode, and the weights."""
    return as_onnx(speech_manifest(), "onnx/")


@pytest.mark.parametrize(("change", "fault"), ONNX_CASES)
def test_contradictions_of_an_onnx_program_are_refused(change: Change, fault: str) -> None:
    to_json(onnx_speech())
    with pytest.raises(ManifestInvalid) as refusal:
        to_json(change(onnx_speech()))
    assert fault in refusal.value.faults


@pytest.mark.parametrize(("change", "fault"), CASES, ids=[case[1][:60] for case in CASES])
def test_a_contradiction_is_refused_and_cannot_be_written(change: Change, fault: str) -> None:
    with pytest.raises(ManifestInvalid) as refusal:
        to_json(change(tiny_manifest()))
    assert fault in refusal.value.faults


@pytest.mark.parametrize(("change", "fault"), ENCODER_CASES)
def test_an_encoder_without_its_parts_is_refused(change: Change, fault: str) -> None:
    with pytest.raises(ManifestInvalid) as refusal:
        to_json(change(speech_manifest()))
    assert fault in refusal.value.faults


@pytest.mark.parametrize(("change", "fault"), ASSISTED_CASES)
def test_an_assistant_that_the_rest_contradicts_is_refused(change: Change, fault: str) -> None:
    with pytest.raises(ManifestInvalid) as refusal:
        to_json(change(assisted_manifest()))
    assert fault in refusal.value.faults


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (part("limits", max_batch="2"), 'limits.max_batch: expected an integer >= 1, got "2"'),
        (part("limits", max_batch=True), "limits.max_batch: expected an integer >= 1, got true"),
        (part("tokens", eos=[1]), "tokens.eos: expected a tuple, got a list of 1"),
        (lambda manifest: replace(manifest, memory=None), "memory: expected a MemoryPlan, got null"),
        (
            lambda manifest: replace(manifest, format_version=2),
            "format_version: expected 1, got 2",
        ),
        (
            part("source", model="\ud800"),
            'source.model: expected a text that is not empty, got "\\ud800"',
        ),
    ],
)
def test_a_value_of_the_wrong_type_cannot_be_written(change: Change, fault: str) -> None:
    with pytest.raises(ManifestInvalid) as refusal:
        to_json(change(tiny_manifest()))
    assert refusal.value.faults == (fault,)


def test_all_contradictions_are_listed_at_once() -> None:
    broken = part("memory", cache_bytes=0)(part("limits", max_step=9)(tiny_manifest()))
    with pytest.raises(ManifestInvalid) as refusal:
        to_json(broken)
    places = [fault.split(":")[0] for fault in refusal.value.faults]
    assert places == [
        "limits.max_step",
        "caches[0].slots",
        "caches[1].slots",
        "memory.cache_bytes",
        "programs[0], decode, input_ids, dim 1",
    ]
