"""A manifest that agrees with itself and not with its program is refused before a session is made."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from runtime_doubles import VOCAB, BundleShape, make_manifest

from runtime_shims.contract.bundle_reader import read_bundle
from runtime_shims.contract.errors import BundleCorrupt, ManifestInvalid
from runtime_shims.contract.manifest import Manifest
from runtime_shims.reference.loading import open_session
from runtime_shims.reference.program_check import StatedMethod, StatedTensor, program_faults
from runtime_shims.reference.program_file import MethodMemory, PlannedTensor, read_method_memory

PROGRAM = "model.portable.pte"
SHAPE = BundleShape(max_batch=2)
SLOTS = 24


def refit(data: dict[str, Any]) -> None:
    """Make every size of an edited manifest follow from its limits again."""
    limits, recipe = data["limits"], data["recipe"]
    limits["max_step"] = max(recipe["prefill_chunk"], recipe["max_draft"] + 1)
    limits["max_logit_rows"] = recipe["max_draft"] + 1
    for key in ("max_batch", "max_dec", "max_draft"):
        limits[key] = recipe[key]
    for cache in data["caches"]:
        cache["reach"] = limits["max_dec"] if cache["kind"] == "full" else cache["reach"]
        cache["slots"] = cache["reach"] + limits["max_step"] - 1
        width = cache["kv_heads"] * (cache["key_dim"] + cache["value_dim"])
        width *= 2 if cache["dtype"] == "float16" else 4
        cache["size_bytes"] = limits["max_batch"] * cache["slots"] * width
    memory, (program,) = data["memory"], data["programs"]
    memory["cache_bytes"] = sum(cache["size_bytes"] for cache in data["caches"])
    program["planned_bytes"] = memory["planned_bytes"] = memory["cache_bytes"] + memory["activation_bytes"]
    extents = {"b": limits["max_batch"], "t": limits["max_step"], "r": limits["max_logit_rows"]}
    (decode,) = program["methods"]
    dims = [("b", "t"), ("b",), ("b",), ("b", "r"), ("b", "r", None)]
    for tensor, names in zip(decode["inputs"] + decode["outputs"], dims, strict=True):
        for dim, name in zip(tensor["dims"], names, strict=True):
            size = extents.get(name, data["tokens"]["vocab_size"])
            static = name is None or size == 1
            dim.update(name=None if static else name, minimum=size if static else 1, maximum=size)


def more_positions(data: dict[str, Any]) -> None:
    data["recipe"]["max_dec"] *= 2


def more_rows(data: dict[str, Any]) -> None:
    data["recipe"]["max_batch"] = 4


def wider_steps(data: dict[str, Any]) -> None:
    data["recipe"]["prefill_chunk"] = 8


def more_drafts(data: dict[str, Any]) -> None:
    data["recipe"]["max_draft"] = 3


def fewer_words(data: dict[str, Any]) -> None:
    data["source"]["vocab_size"] = data["tokens"]["vocab_size"] = 63


def half_the_heads_twice_the_slots(data: dict[str, Any]) -> None:
    """The same bytes, so that only the shapes of the buffers can tell."""
    for cache in data["caches"]:
        cache["kv_heads"] //= 2
    data["recipe"]["max_dec"] = 2 * data["caches"][0]["slots"] - data["limits"]["max_step"] + 1


def caches_of_halves(data: dict[str, Any]) -> None:
    for cache in data["caches"]:
        cache["dtype"] = "float16"


def a_cache_less(data: dict[str, Any]) -> None:
    data["caches"].pop()


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (more_positions, "caches[0]: [2, 195, 12] rows, slots and sizes here, not in the program"),
        (more_positions, "memory.cache_bytes: 74880 here, the program holds 38016"),
        (more_rows, "programs[0], decode, positions: at most int64 [4] here, int64 [1] in the program"),
        (wider_steps, "programs[0], decode, input_ids: at most int64 [1, 8] here, int64 [1, 4] in the program"),
        (more_drafts, "programs[0], decode, logit_rows: at most int64 [1, 4] here, int64 [1, 3] in the program"),
        (fewer_words, "programs[0], decode, logits: at most float32 [1, 3, 63] here, float32 [1, 3, 64] in"),
        (half_the_heads_twice_the_slots, "caches[0]: [1, 198, 12] rows, slots and sizes here, not in the program"),
        (caches_of_halves, "caches: float16 here, float32 in the program"),
        (a_cache_less, "caches: 1 are listed, the program holds 4 buffers"),
    ],
)
def test_a_manifest_edited_consistently_is_refused_when_its_program_is_loaded(
    llama_bundle: Path, tmp_path: Path, change: Callable[[dict[str, Any]], object], field: str
) -> None:
    bundle = shutil.copytree(llama_bundle, tmp_path / "my.bundle")
    data = json.loads((bundle / "manifest.json").read_text())
    change(data)
    refit(data)
    (bundle / "manifest.json").write_text(json.dumps(data))
    opened = read_bundle(bundle)  # no part of it contradicts another
    with pytest.raises(ManifestInvalid) as refusal:
        open_session(opened)
    assert any(fault.startswith(field) for fault in refusal.value.faults), refusal.value.faults
    assert str(refusal.value).startswith(f"{bundle / 'manifest.json'}: ")
    assert "the file was edited or damaged: export the model again" in str(refusal.value)


def test_a_manifest_made_to_fit_without_a_change_is_accepted(llama_bundle: Path, tmp_path: Path) -> None:
    """The control: what is refused above is the change."""
    bundle = shutil.copytree(llama_bundle, tmp_path / "my.bundle")
    written = (bundle / "manifest.json").read_text()
    data = json.loads(written)
    refit(data)
    assert data == json.loads(written)
    open_session(read_bundle(bundle))


def stated(manifest: Manifest) -> list[StatedMethod]:
    """What a program of exactly this manifest states."""
    (entry,) = manifest.programs

    def tensors(entries: Any) -> tuple[StatedTensor, ...]:
        return tuple(StatedTensor(entry.dtype, tuple(dim.maximum for dim in entry.dims)) for entry in entries)

    return [StatedMethod(method.name, tensors(method.inputs), tensors(method.outputs)) for method in entry.methods]


def memory(*shapes: tuple[int, ...], cache_bytes: int = 0, dtype: str = "float32") -> tuple[MethodMemory, ...]:
    """One method whose caches are `shapes` of `dtype`."""
    manifest = make_manifest(SHAPE)
    arenas = (0, manifest.memory.activation_bytes, cache_bytes or manifest.memory.cache_bytes)
    tensors = tuple(PlannedTensor(2, 64 * index, dtype, shape) for index, shape in enumerate(shapes))
    return (MethodMemory("decode", arenas, tensors),)


@pytest.mark.parametrize("shape", [(2, 2, SLOTS, 8), (4, SLOTS, 8), (4 * SLOTS, 8)])
def test_every_form_in_which_a_spelling_holds_its_caches_is_known(shape: tuple[int, ...]) -> None:
    manifest = make_manifest(SHAPE)
    assert program_faults(manifest, manifest.programs[0], stated(manifest), memory(shape, shape)) == []


@pytest.mark.parametrize(
    "shape", [(2, 2, SLOTS - 1, 8), (2, 1, SLOTS, 8), (2, SLOTS, 8), (4, SLOTS, 4), (4 * SLOTS - 4, 8)]
)
def test_a_cache_of_another_shape_is_found(shape: tuple[int, ...]) -> None:
    manifest = make_manifest(SHAPE)
    (fault,) = program_faults(manifest, manifest.programs[0], stated(manifest), memory((2, 2, SLOTS, 8), shape))
    assert fault == "caches[0]: [4, 24, 8] rows, slots and sizes here, not in the program"


def test_caches_of_another_type_are_found() -> None:
    manifest = make_manifest(SHAPE)
    held = memory((2, 2, SLOTS, 8), (2, 2, SLOTS, 8), dtype="float16")
    (fault,) = program_faults(manifest, manifest.programs[0], stated(manifest), held)
    assert fault == "caches: float32 here, float16 in the program"


def test_a_program_of_other_inputs_or_types_is_found() -> None:
    manifest = make_manifest(SHAPE)
    (decode,) = stated(manifest)
    fewer = StatedMethod("decode", decode.inputs[:3], (StatedTensor("float16", (2, 4, VOCAB)),))
    held = memory((2, 2, SLOTS, 8), (2, 2, SLOTS, 8))
    assert program_faults(manifest, manifest.programs[0], [fewer], held) == [
        "programs[0], decode, inputs: 4 are listed, the program has 3",
        "programs[0], decode, logits: at most float32 [2, 4, 64] here, float16 [2, 4, 64] in the program",
    ]


@pytest.mark.parametrize("data", [b"", b"\x00", b"\xff" * 64, struct.pack("<I", 2**31) + b"ET12"])
def test_a_file_that_is_no_program_is_one_line(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "model.pte"
    path.write_bytes(data)
    with pytest.raises(BundleCorrupt, match="it is not laid out as an ExecuTorch program") as refusal:
        read_method_memory(path)
    assert "\n" not in str(refusal.value)


def test_a_program_cut_anywhere_is_refused_and_never_read_past_its_end(llama_bundle: Path, tmp_path: Path) -> None:
    data = (llama_bundle / PROGRAM).read_bytes()
    whole = read_method_memory(llama_bundle / PROGRAM)
    for length in range(0, len(data), len(data) // 40):
        (tmp_path / "cut.pte").write_bytes(data[:length])
        try:
            found = read_method_memory(tmp_path / "cut.pte")
        except BundleCorrupt:
            continue
        assert found == whole  # only weights were lost
