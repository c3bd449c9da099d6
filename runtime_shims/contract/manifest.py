"""The manifest of a bundle: everything a runtime must know, as frozen dataclasses.

The classes are the format. `strict_json` reads and writes them without defaults, `manifest.schema.json`
is generated from them, and `manifest_rules` holds what types cannot say. All sizes are bytes; all
counts, positions and token ids are integers; `None` is JSON null, and a key is never left out.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Literal

from runtime_shims.contract.errors import FormatTooNew, ManifestInvalid
from runtime_shims.contract.manifest_rules import rule_faults
from runtime_shims.contract.sound_positions import SoundPositions
from runtime_shims.contract.strict_json import NotStrictJson, decode, encode, parse
from runtime_shims.contract.strict_types import AtLeast, Matches, OneOf

# Dated log of the format. A change of any key, type or meaning is a new version; the smallest bundle of
# every released version is kept under tests/golden and must keep loading.
#   1  2026-11-30  first version
FORMAT_VERSION = 1
MANIFEST_NAME = "manifest.json"
EDITED = "the file was edited or damaged: export the model again"
"""What to do about a manifest that contradicts itself or its programs."""

Count = Annotated[int, AtLeast(0)]
Size = Annotated[int, AtLeast(1)]
Name = Annotated[str, Matches(r".+", "a text that is not empty")]
Sha256 = Annotated[str, Matches(r"[0-9a-f]{64}", "a SHA-256 of 64 lower-case hexadecimal digits")]
RelativePath = Annotated[
    str,
    Matches(
        r"(?!\.{1,2}(/|$))[^/\\:\x00-\x1f]+(/(?!\.{1,2}(/|$))[^/\\:\x00-\x1f]+)*",
        'a relative path inside the bundle ("/" between names; no "..", "\\" or ":")',
    ),
]
ModelKind = Literal["decoder_only", "text_seq2seq", "speech_seq2seq"]
Attention = Literal["fused", "portable"]
EXPORT_BACKENDS = ("xnnpack", "portable", "onnx")
"""What export-model writes programs for."""
Backend = Annotated[str, OneOf(EXPORT_BACKENDS)]
IndexType = Annotated[str, OneOf(("int64", "int32"))]
FloatType = Annotated[str, OneOf(("float32", "float16", "bfloat16"))]
CacheType = Annotated[str, OneOf(("float32", "float16", "bfloat16", "int8"))]
TensorType = Annotated[str, OneOf(("float32", "float16", "bfloat16", "int64", "int32", "int8", "bool"))]


@dataclass(frozen=True)
class Source:
    """The model that was exported. `seed` is given exactly when the weights are random."""

    model: Name
    revision: Name | None
    model_type: Name
    architecture: Name
    random_weights: bool
    seed: Count | None
    parameter_count: Count
    vocab_size: Size


@dataclass(frozen=True)
class ResolvedRecipe:
    """The export options with every default filled in. `max_enc` is null for decoder-only models.

    `index_dtype` is the type of token ids, positions and lengths, as the programs take them. `draft` is null,
    `self-int4`, or the model whose bundle lies in `draft`; with an assistant, the assistant.
    """

    model: Name
    max_batch: Size
    max_enc: Size | None
    max_dec: Size
    max_draft: Count
    prefill_chunk: Size
    backends: tuple[Backend, ...]
    attention: Attention
    quantize: Name
    embedding_bits: Size | None
    group_size: Size | None
    dtype: FloatType
    index_dtype: IndexType
    draft: Name | None


@dataclass(frozen=True)
class Limits:
    """Upper bounds of one call and of one sequence; anything up to them is served.

    `max_step` is max(prefill_chunk, max_draft + 1), `max_logit_rows` is max_draft + 1. `source_shape`
    is the shape of one row of speech features (80, 3000) and null for text and for sound that is taken as it is.
    """

    max_batch: Size
    max_enc: Size | None
    max_dec: Size
    max_draft: Count
    max_step: Size
    max_logit_rows: Size
    source_shape: tuple[Size, ...] | None


@dataclass(frozen=True)
class Speech:
    """The sound that programs take: one channel, `sampling_rate` values per second, at most `samples` values per row.

    Without `positions` method `features` takes exactly `samples` values, zeros behind what is shorter. With them there
    is no such method: `encode` takes the sound itself, of any length, in hops, and how many samples each row has.
    Null where the programs take no sound: for text, and for speech whose front end cannot be a method.
    """

    sampling_rate: Size
    samples: Size
    positions: SoundPositions | None


@dataclass(frozen=True)
class Assistant:
    """A model that drafts tokens over the caches of this one (`draft`), from hidden states of `hidden_size` values.

    It reads the last self-attention cache of each kind. Null where the programs have no such method.
    """

    hidden_size: Size


@dataclass(frozen=True)
class CacheEntry:
    """The key and the value cache of one layer: [max_batch, kv_heads, slots, key_dim or value_dim].

    `reach` is what is kept, up to the next position: the window of a sliding layer (two more where an assistant looks
    further; at most max_dec), max_dec of a full layer, max_enc of a cross layer. `size_bytes` counts keys and values
    together. With int8 the last size of the tensors is larger by 4: each position of a head ends with its scale, a
    float32.
    """

    name: Name
    layer: Count
    kind: Literal["full", "sliding", "cross"]
    reach: Size
    slots: Size
    kv_heads: Size
    key_dim: Size
    value_dim: Size
    dtype: CacheType
    size_bytes: Size


@dataclass(frozen=True)
class Dim:
    """One dimension. Static: no name, minimum = maximum. Dynamic: a name, any value in between."""

    name: Name | None
    minimum: Count
    maximum: Count


@dataclass(frozen=True)
class TensorEntry:
    """One input or output of a method; no dims for a scalar."""

    name: Name
    dtype: TensorType
    dims: tuple[Dim, ...]


@dataclass(frozen=True)
class MethodEntry:
    """One entry point of a program, tensors in call order."""

    name: Name
    inputs: tuple[TensorEntry, ...]
    outputs: tuple[TensorEntry, ...]


@dataclass(frozen=True)
class ProgramEntry:
    """One program file and what it takes to run it."""

    file: RelativePath
    format: Literal["executorch", "onnx"]
    backend: Backend
    attention: Attention
    operator_library_required: bool
    methods: tuple[MethodEntry, ...]
    planned_bytes: Count
    weights_bytes: Count


@dataclass(frozen=True)
class ForcedToken:
    """The token that generation must emit at a decoder position."""

    position: Count
    token: Count


@dataclass(frozen=True)
class TokenRules:
    """Which tokens begin, end, are forced, or may not be generated.

    `start` is the decoder prompt that is put before generation; empty for decoder-only models unless
    the tokenizer adds a first token. `begin_suppress` holds for the first generated token only.
    """

    vocab_size: Size
    eos: tuple[Count, ...]
    pad: Count | None
    start: tuple[Count, ...]
    forced: tuple[ForcedToken, ...]
    suppress: tuple[Count, ...]
    begin_suppress: tuple[Count, ...]


@dataclass(frozen=True)
class GenerationSettings:
    """What the runtimes honour by default. Decoding is greedy."""

    max_new_tokens: Size | None


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes known at export. `cache_bytes` is the sum over `caches`; `note` says what is not counted."""

    weights_bytes: Count
    cache_bytes: Count
    activation_bytes: Count
    planned_bytes: Count
    note: str


@dataclass(frozen=True)
class PackageVersion:
    """A package that took part in the export."""

    name: Name
    version: Name


@dataclass(frozen=True)
class FileEntry:
    """One file of the bundle; the manifest itself is not listed.

    The file with role `draft` is the manifest of the bundle in `draft`, which proposes tokens for this one; its own
    files are listed there.
    """

    path: RelativePath
    role: Literal["program", "tokenizer", "golden", "preprocessor", "config", "draft"]
    sha256: Sha256
    size_bytes: Count


@dataclass(frozen=True)
class Manifest:
    """The whole manifest. The constructor checks nothing; `from_json` and `to_json` check everything."""

    format_version: Size
    kind: ModelKind
    source: Source
    recipe: ResolvedRecipe
    limits: Limits
    speech: Speech | None
    assistant: Assistant | None
    caches: tuple[CacheEntry, ...]
    programs: tuple[ProgramEntry, ...]
    tokens: TokenRules
    generation: GenerationSettings
    quantization: Name
    memory: MemoryPlan
    packages: tuple[PackageVersion, ...]
    files: tuple[FileEntry, ...]

    @property
    def sound_positions(self) -> SoundPositions | None:
        """How sound of any length becomes encoder positions; None where the encoder takes something else."""
        return None if self.speech is None else self.speech.positions


def from_json(text: bytes | str, where: str = MANIFEST_NAME) -> Manifest:
    """The manifest in a JSON text. `where` names its origin in messages.

    Raises:
        FormatTooNew: written by a newer version; nothing else is looked at.
        ManifestInvalid: with every fault of form, or else every contradiction between its parts.
    """
    try:
        data = parse(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)
    except NotStrictJson as error:
        raise ManifestInvalid(where, [str(error)], EDITED) from None
    version = data.get("format_version") if isinstance(data, dict) else None
    if type(version) is int and version > FORMAT_VERSION:
        fault = f"format_version is {version}, this version reads up to {FORMAT_VERSION}"
        raise FormatTooNew(where, [fault], "upgrade fixed-capacity or export the model again")
    manifest, faults = decode(Manifest, data)
    if manifest is not None:
        faults = rule_faults(manifest)
    if manifest is None or faults:
        raise ManifestInvalid(where, faults, EDITED)
    return manifest


def to_json(manifest: Manifest) -> str:
    """The JSON text of a manifest, keys in the order of the classes.

    Raises:
        ManifestInvalid: for anything that `from_json` would refuse; nothing invalid can be written.
    """
    data, faults = encode(manifest)
    faults = faults or rule_faults(manifest)
    if manifest.format_version != FORMAT_VERSION:
        faults = [f"format_version: expected {FORMAT_VERSION}, got {manifest.format_version}", *faults]
    if faults:
        raise ManifestInvalid(MANIFEST_NAME, faults, "the exporter must not write this")
    return json.dumps(data, indent=2) + "\n"
