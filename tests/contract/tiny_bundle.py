"""A tiny, well-formed bundle built by code: one layer, two files, no real program."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

from runtime_shims.contract.manifest import (
    FORMAT_VERSION,
    MANIFEST_NAME,
    Assistant,
    CacheEntry,
    Dim,
    FileEntry,
    ForcedToken,
    GenerationSettings,
    Limits,
    Manifest,
    MemoryPlan,
    MethodEntry,
    PackageVersion,
    ProgramEntry,
    ResolvedRecipe,
    Source,
    Speech,
    TensorEntry,
    TokenRules,
    to_json,
)
from runtime_shims.contract.sound_positions import SoundPositions

PROGRAM_BYTES = b"not a real program, but sixty-four bytes that stand for one here"
TOKENIZER_BYTES = b'{"vocabulary": []}'
CONTENTS = {"model.xnnpack.pte": PROGRAM_BYTES, "tokenizer/tokenizer.json": TOKENIZER_BYTES}
MAX_BATCH, MAX_DEC, MAX_ENC, MAX_DRAFT, CHUNK, VOCABULARY = 2, 16, 5, 2, 4, 64
HEADS, HEAD_SIZE, FLOAT_BYTES = 2, 8, 4
ACTIVATION_BYTES = 500
SAMPLES = 60
HIDDEN = 6

BATCH = Dim("batch", 1, MAX_BATCH)
STEP = Dim("step", 1, CHUNK)
ROWS = Dim("logit_rows", 1, MAX_DRAFT + 1)
ENCODER = Dim("encoder", 1, MAX_ENC)
STATIC_VOCABULARY = Dim(None, VOCABULARY, VOCABULARY)
ONE = Dim(None, 1, 1)
STATIC_HIDDEN = Dim(None, HIDDEN, HIDDEN)


def cache(name: str, layer: int, kind: str, reach: int) -> CacheEntry:
    """A cache entry that obeys the cache law."""
    slots = reach if kind == "cross" else reach + CHUNK - 1
    size = MAX_BATCH * HEADS * slots * 2 * HEAD_SIZE * FLOAT_BYTES
    return CacheEntry(name, layer, kind, reach, slots, HEADS, HEAD_SIZE, HEAD_SIZE, "float32", size)


def file_entry(path: str, contents: bytes, role: str) -> FileEntry:
    return FileEntry(path, role, hashlib.sha256(contents).hexdigest(), len(contents))


def integers(name: str, *dims: Dim) -> TensorEntry:
    return TensorEntry(name, "int64", dims)


def decode_method() -> MethodEntry:
    return MethodEntry(
        "decode",
        (
            integers("input_ids", BATCH, STEP),
            integers("positions", BATCH),
            integers("step_lengths", BATCH),
            integers("logit_rows", BATCH, ROWS),
        ),
        (TensorEntry("logits", "float32", (BATCH, ROWS, STATIC_VOCABULARY)),),
    )


def tiny_manifest() -> Manifest:
    """A decoder-only model of two layers, one full and one sliding over 4 positions."""
    caches = (cache("layer0", 0, "full", MAX_DEC), cache("layer1", 1, "sliding", 4))
    cache_bytes = sum(entry.size_bytes for entry in caches)
    planned_bytes = cache_bytes + ACTIVATION_BYTES
    program = ProgramEntry(
        "model.xnnpack.pte", "executorch", "xnnpack", "fused", True, (decode_method(),), planned_bytes, 4000
    )
    return Manifest(
        format_version=FORMAT_VERSION,
        kind="decoder_only",
        source=Source("tiny", None, "toy", "ToyForCausalLM", True, 0, 1000, VOCABULARY),
        recipe=ResolvedRecipe(
            model="tiny",
            max_batch=MAX_BATCH,
            max_enc=None,
            max_dec=MAX_DEC,
            max_draft=MAX_DRAFT,
            prefill_chunk=CHUNK,
            backends=("xnnpack",),
            attention="fused",
            quantize="none",
            embedding_bits=None,
            group_size=None,
            dtype="float32",
            index_dtype="int64",
            draft=None,
        ),
        limits=Limits(MAX_BATCH, None, MAX_DEC, MAX_DRAFT, CHUNK, MAX_DRAFT + 1, None),
        speech=None,
        assistant=None,
        caches=caches,
        programs=(program,),
        tokens=TokenRules(VOCABULARY, (1,), 0, (), (ForcedToken(3, 7),), (5, 6), ()),
        generation=GenerationSettings(None),
        quantization="none",
        memory=MemoryPlan(4000, cache_bytes, ACTIVATION_BYTES, planned_bytes, "one program"),
        packages=(PackageVersion("torch", "2.13.0"),),
        files=(
            file_entry("model.xnnpack.pte", PROGRAM_BYTES, "program"),
            file_entry("tokenizer/tokenizer.json", TOKENIZER_BYTES, "tokenizer"),
        ),
    )


def onnx_manifest() -> Manifest:
    """The tiny manifest with an ONNX program in a directory."""
    return as_onnx(tiny_manifest(), "onnx/")


def floats(name: str, *dims: Dim) -> TensorEntry:
    return TensorEntry(name, "float32", dims)


def draft_method() -> MethodEntry:
    return MethodEntry(
        "draft",
        (
            integers("input_ids", BATCH, ONE),
            floats("hidden", BATCH, STATIC_HIDDEN),
            integers("positions", BATCH),
            integers("step_lengths", BATCH),
        ),
        (floats("logits", BATCH, ONE, STATIC_VOCABULARY), floats("next_hidden", BATCH, STATIC_HIDDEN)),
    )


def assisted_manifest() -> Manifest:
    """The tiny manifest with an assistant, which takes hidden states of 6 values."""
    base = tiny_manifest()
    (program,) = base.programs
    decode = decode_method()
    decode = replace(decode, outputs=(*decode.outputs, floats("hidden", BATCH, ROWS, STATIC_HIDDEN)))
    return replace(
        base,
        recipe=replace(base.recipe, draft="tiny-assistant"),
        assistant=Assistant(HIDDEN),
        programs=(replace(program, methods=(decode, draft_method())),),
    )


def as_onnx(base: Manifest, place: str = "") -> Manifest:
    """A manifest whose only program is an ONNX one."""
    (program,) = base.programs
    made = replace(
        program,
        file=f"{place}decode.onnx",
        format="onnx",
        backend="onnx",
        attention="portable",
        operator_library_required=False,
    )
    names = [*(f"{method.name}.onnx" for method in program.methods), "weights.bin"]
    files = tuple(file_entry(f"{place}{name}", b"", "program") for name in names)
    return replace(
        base,
        recipe=replace(base.recipe, backends=("onnx",), attention="portable"),
        programs=(made,),
        files=(*files, *base.files[1:]),
    )


def speech_manifest() -> Manifest:
    """The same with an encoder of 5 output positions over features of shape (3, 10), made of 60 samples."""
    base = tiny_manifest()
    source = (BATCH, Dim(None, 3, 3), Dim(None, 10, 10))
    features = MethodEntry(
        "features",
        (TensorEntry("waveform", "float32", (BATCH, Dim(None, SAMPLES, SAMPLES))),),
        (TensorEntry("features", "float32", source),),
    )
    encode = MethodEntry(
        "encode",
        (
            TensorEntry("input_features", "float32", source),
            integers("enc_lengths", BATCH),
        ),
        (integers("lengths", BATCH),),
    )
    decode = replace(decode_method(), inputs=(*decode_method().inputs, integers("enc_lengths", BATCH)))
    caches = (*base.caches, cache("cross0", 0, "cross", MAX_ENC))
    cache_bytes = sum(entry.size_bytes for entry in caches)
    planned_bytes = cache_bytes + ACTIVATION_BYTES
    return replace(
        base,
        kind="speech_seq2seq",
        recipe=replace(base.recipe, max_enc=MAX_ENC),
        limits=replace(base.limits, max_enc=MAX_ENC, source_shape=(3, 10)),
        speech=Speech(16_000, SAMPLES, None),
        caches=caches,
        programs=(replace(base.programs[0], methods=(features, encode, decode), planned_bytes=planned_bytes),),
        tokens=replace(base.tokens, start=(2,)),
        memory=replace(base.memory, cache_bytes=cache_bytes, planned_bytes=planned_bytes),
    )


def sound_manifest() -> Manifest:
    """The same with an encoder that takes sound of any length: 7 samples give a position, 4 more the next."""
    base = speech_manifest()
    (program,) = base.programs
    _, encode, decode = program.methods
    waveform = TensorEntry("waveform", "float32", (BATCH, Dim("h", 2, 6), Dim(None, 4, 4)))
    heard = replace(encode, inputs=(waveform, integers("sample_lengths", BATCH)))
    return replace(
        base,
        limits=replace(base.limits, source_shape=None),
        speech=Speech(16_000, 24, SoundPositions(window=7, stride=4)),
        programs=(replace(program, methods=(heard, decode)),),
    )


def write_tiny_bundle(root: Path) -> Path:
    """Write the bundle of `tiny_manifest` into the new directory `root`."""
    root.mkdir(parents=True)
    for path, contents in CONTENTS.items():
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_bytes(contents)
    (root / MANIFEST_NAME).write_text(to_json(tiny_manifest()), encoding="utf-8")
    return root
