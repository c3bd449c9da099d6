"""The methods of a program repeat the limits: where they do not, the manifest was edited by hand and is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tiny_bundle import (
    BATCH,
    CHUNK,
    MAX_BATCH,
    MAX_DEC,
    ROWS,
    SAMPLES,
    STEP,
    assisted_manifest,
    cache,
    file_entry,
    floats,
    integers,
    onnx_manifest,
    speech_manifest,
    tiny_manifest,
)

from runtime_shims.contract.errors import ManifestInvalid
from runtime_shims.contract.manifest import (
    CacheEntry,
    Dim,
    Manifest,
    MethodEntry,
    Speech,
    TensorEntry,
    from_json,
    to_json,
)

Change = Callable[[MethodEntry], MethodEntry]


def refused(manifest: Manifest) -> tuple[str, ...]:
    """The faults for which neither the writer nor the reader takes `manifest`."""
    with pytest.raises(ManifestInvalid) as refusal:
        to_json(manifest)
    return refusal.value.faults


def with_method(manifest: Manifest, name: str, change: Change) -> Manifest:
    """The manifest with one method of its program changed."""
    (program,) = manifest.programs
    methods = tuple(change(method) if method.name == name else method for method in program.methods)
    return replace(manifest, programs=(replace(program, methods=methods),))


def with_input(index: int, tensor: TensorEntry) -> Change:
    """Replace one input of a method."""
    return lambda method: replace(method, inputs=(*method.inputs[:index], tensor, *method.inputs[index + 1 :]))


def renamed_extent(dim: Dim, name: str, maximum: int) -> Dim:
    return replace(dim, maximum=maximum) if dim.name == name else dim


def with_extent(manifest: Manifest, name: str, maximum: int) -> Manifest:
    """Every dimension called `name` of every method, with another maximum."""

    def changed(tensors: tuple[TensorEntry, ...]) -> tuple[TensorEntry, ...]:
        return tuple(
            replace(tensor, dims=tuple(renamed_extent(dim, name, maximum) for dim in tensor.dims)) for tensor in tensors
        )

    for method in manifest.programs[0].methods:
        manifest = with_method(
            manifest,
            method.name,
            lambda found: replace(found, inputs=changed(found.inputs), outputs=changed(found.outputs)),
        )
    return manifest


def with_caches(manifest: Manifest, caches: tuple[CacheEntry, ...]) -> Manifest:
    """The manifest with other caches and every sum over them made to fit."""
    cache_bytes = sum(entry.size_bytes for entry in caches)
    planned_bytes = cache_bytes + manifest.memory.activation_bytes
    return replace(
        manifest,
        caches=caches,
        programs=(replace(manifest.programs[0], planned_bytes=planned_bytes),),
        memory=replace(manifest.memory, cache_bytes=cache_bytes, planned_bytes=planned_bytes),
    )


def test_a_larger_batch_in_limits_caches_and_sums_is_refused_by_the_methods() -> None:
    base, rows = tiny_manifest(), MAX_BATCH * 2
    caches = tuple(replace(entry, size_bytes=entry.size_bytes * 2) for entry in base.caches)
    edited = replace(
        with_caches(base, caches),
        recipe=replace(base.recipe, max_batch=rows),
        limits=replace(base.limits, max_batch=rows),
    )
    faults = refused(edited)
    assert faults[0] == "programs[0], decode, input_ids, dim 0: expected 1 to 4 (limits.max_batch), got 1 to 2"
    assert len(faults) == 5
    to_json(with_extent(edited, "batch", rows))  # the control: with the methods edited too, only the program can tell


def test_a_longer_context_made_to_fit_everywhere_agrees_with_itself() -> None:
    """No method has a dimension of that size: this one is found when the program is loaded."""
    base, longer = tiny_manifest(), MAX_DEC * 2
    full = cache("layer0", 0, "full", longer)
    edited = with_caches(base, (full, base.caches[1]))
    recipe, limits = replace(base.recipe, max_dec=longer), replace(base.limits, max_dec=longer)
    to_json(replace(edited, recipe=recipe, limits=limits))


DECODE_CASES: list[tuple[Change, str]] = [
    (
        with_input(0, integers("input_ids", BATCH, Dim("step", 1, CHUNK + 1))),
        "programs[0], decode, input_ids, dim 1: expected 1 to 4 (limits.max_step), got 1 to 5",
    ),
    (
        with_input(0, integers("input_ids", BATCH, Dim("step", 2, CHUNK))),
        "programs[0], decode, input_ids, dim 1: expected 1 to 4 (limits.max_step), got 2 to 4",
    ),
    (with_input(0, integers("input_ids", BATCH)), "programs[0], decode, input_ids: expected 2 dims, got 1"),
    (
        with_input(1, TensorEntry("positions", "int32", (BATCH,))),
        "programs[0], decode, positions: expected int64, got int32",
    ),
    (
        with_input(1, integers("step_lengths", BATCH)),
        "programs[0], decode, inputs: expected positions in place 1, got step_lengths",
    ),
    (
        with_input(3, integers("logit_rows", BATCH, Dim("logit_rows", 1, 2))),
        "programs[0], decode, logit_rows, dim 1: expected 1 to 3 (limits.max_logit_rows), got 1 to 2",
    ),
    (
        lambda method: replace(method, inputs=method.inputs[:3]),
        "programs[0], decode, inputs: expected 4, got 3",
    ),
    (
        lambda method: replace(method, outputs=()),
        "programs[0], decode, outputs: expected 1, got 0",
    ),
    (
        lambda method: replace(
            method, outputs=(TensorEntry("logits", "float32", (BATCH, Dim("logit_rows", 1, 3), Dim(None, 60, 60))),)
        ),
        "programs[0], decode, logits, dim 2: expected 64 (tokens.vocab_size), got 60",
    ),
]


@pytest.mark.parametrize(("change", "fault"), DECODE_CASES)
def test_a_decode_that_differs_from_the_limits_is_refused(change: Change, fault: str) -> None:
    assert fault in refused(with_method(tiny_manifest(), "decode", change))


ENCODE_CASES: list[tuple[int, TensorEntry, str]] = [
    (
        0,
        TensorEntry("input_features", "float32", (BATCH, Dim(None, 3, 3), Dim(None, 11, 11))),
        "programs[0], encode, input_features, dim 2: expected 10 (limits.source_shape), got 11",
    ),
    (0, integers("input_ids", BATCH, STEP), "programs[0], encode, input_ids: expected float32, got int64"),
    (1, integers("lengths", BATCH), "programs[0], encode, inputs: expected enc_lengths in place 1, got lengths"),
]


@pytest.mark.parametrize(("index", "tensor", "fault"), ENCODE_CASES)
def test_an_encode_that_differs_from_the_limits_is_refused(index: int, tensor: TensorEntry, fault: str) -> None:
    assert fault in refused(with_method(speech_manifest(), "encode", with_input(index, tensor)))


ASSISTED_CASES: list[tuple[str, Change, str]] = [
    (
        "draft",
        with_input(1, floats("hidden", BATCH, Dim(None, 7, 7))),
        "programs[0], draft, hidden, dim 1: expected 6 (assistant.hidden_size), got 7",
    ),
    (
        "draft",
        with_input(0, integers("input_ids", BATCH, Dim("step", 1, CHUNK))),
        "programs[0], draft, input_ids, dim 1: expected 1 (one token per row), got 1 to 4",
    ),
    (
        "draft",
        lambda method: replace(method, inputs=(method.inputs[0], *method.inputs[2:])),
        "programs[0], draft, inputs: expected 4, got 3",
    ),
    (
        "draft",
        lambda method: replace(method, outputs=method.outputs[:1]),
        "programs[0], draft, outputs: expected 2, got 1",
    ),
    (
        "decode",
        lambda method: replace(method, outputs=method.outputs[:1]),
        "programs[0], decode, outputs: expected 2, got 1",
    ),
    (
        "decode",
        lambda method: replace(method, outputs=(method.outputs[0], floats("hidden", BATCH, ROWS, Dim(None, 5, 5)))),
        "programs[0], decode, hidden, dim 2: expected 6 (assistant.hidden_size), got 5",
    ),
]


@pytest.mark.parametrize(("name", "change", "fault"), ASSISTED_CASES)
def test_what_an_assistant_takes_and_gives_is_checked(name: str, change: Change, fault: str) -> None:
    assert fault in refused(with_method(assisted_manifest(), name, change))


def without_features(manifest: Manifest, place: int = 0) -> Manifest:
    """The manifest whose program at `place` has no method `features`."""
    programs = list(manifest.programs)
    kept = tuple(method for method in programs[place].methods if method.name != "features")
    programs[place] = replace(programs[place], methods=kept)
    return replace(manifest, programs=tuple(programs))


def with_second_program(manifest: Manifest) -> Manifest:
    """The manifest with the same program for portable kernels, too."""
    second = replace(manifest.programs[0], file="model.portable.pte", backend="portable")
    return replace(
        manifest,
        recipe=replace(manifest.recipe, backends=("xnnpack", "portable")),
        programs=(*manifest.programs, second),
        files=(*manifest.files, file_entry("model.portable.pte", b"", "program")),
    )


def test_speech_without_a_method_for_its_features_is_a_manifest_whose_speech_is_null() -> None:
    silent = replace(without_features(speech_manifest()), speech=None)
    assert from_json(to_json(silent)).speech is None


def test_features_are_in_every_program_or_in_none() -> None:
    both = with_second_program(speech_manifest())
    assert from_json(to_json(both)).speech == Speech(16_000, SAMPLES, None)
    assert refused(without_features(both, 1)) == ('programs[1].methods: there is no "features"',)
    assert refused(without_features(both, 0)) == ('programs[0].methods: there is no "features"',)
    assert refused(replace(without_features(both, 1), speech=None)) == (
        'programs[0].methods: there is a "features", but speech is null',
    )


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (
            with_input(0, TensorEntry("waveform", "float32", (BATCH, Dim(None, 61, 61)))),
            "programs[0], features, waveform, dim 1: expected 60 (speech.samples), got 61",
        ),
        (
            with_input(0, TensorEntry("waveform", "float32", (BATCH, Dim("n", 1, 60)))),
            "programs[0], features, waveform, dim 1: expected 60 (speech.samples), got 1 to 60",
        ),
        (
            with_input(0, TensorEntry("waveform", "float16", (BATCH, Dim(None, 60, 60)))),
            "programs[0], features, waveform: expected float32, got float16",
        ),
        (
            with_input(0, TensorEntry("sound", "float32", (BATCH, Dim(None, 60, 60)))),
            "programs[0], features, inputs: expected waveform in place 0, got sound",
        ),
        (
            lambda method: replace(
                method, outputs=(TensorEntry("features", "float32", (BATCH, Dim(None, 3, 3), Dim(None, 9, 9))),)
            ),
            "programs[0], features, features, dim 2: expected 10 (limits.source_shape), got 9",
        ),
        (lambda method: replace(method, outputs=()), "programs[0], features, outputs: expected 1, got 0"),
    ],
)
def test_features_that_differ_from_sound_and_limits_are_refused(change: Change, fault: str) -> None:
    assert fault in refused(with_method(speech_manifest(), "features", change))


def test_the_caches_of_an_onnx_program_are_not_listed_with_its_inputs() -> None:
    to_json(onnx_manifest())
    changed = with_method(
        onnx_manifest(), "decode", lambda method: replace(method, inputs=(*method.inputs, integers("cache", BATCH)))
    )
    assert refused(changed) == ("programs[0], decode, inputs: expected 4, got 5",)
