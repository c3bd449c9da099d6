"""`Recipe`: what the user asks for. Values live in `recipes/`; this file only says which are possible."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from exporter.spec.draft import draft_faults
from exporter.spec.faults import PlanError, RecipeError, raise_if_any
from exporter.spec.limits import limit_faults
from exporter.spec.weight_format import (
    DEFAULT_GROUP,
    EMBEDDING_BITS,
    FLOAT_BITS,
    GROUPS,
    INT8_CACHES,
    LINEAR_BITS,
    ONNX_GROUPS,
    WHOLE_FEATURE,
)
from runtime_shims.contract.integers import pictured
from runtime_shims.contract.manifest import EXPORT_BACKENDS, Attention, ResolvedRecipe
from runtime_shims.contract.strict_types import LARGEST_INTEGER

if TYPE_CHECKING:
    from exporter.spec.model_spec import ModelSpec

BACKENDS = EXPORT_BACKENDS
ATTENTIONS = ("fused", "portable")
QUANTIZATIONS = ("none", *LINEAR_BITS)
DTYPES = tuple(FLOAT_BITS)
INDEX_DTYPES = ("int64", "int32")

LARGEST_SIZE = 2**31 - 1
"""Programs hold the sizes of tensors in 32 bits."""
LARGEST_SEED = LARGEST_INTEGER

DEFAULT_CONTEXT = 2048
DEFAULT_ENCODER = 512
DEFAULT_SECONDS = 30
"""Sound that fits where an encoder takes any length of it."""
DEFAULT_TEXT_DECODER = 256
DEFAULT_DRAFT = 4
DEFAULT_CHUNK_DECODER_ONLY = 128
DEFAULT_CHUNK_SEQ2SEQ = 16


@dataclass(frozen=True)
class Recipe:
    """One export, as asked for. `None` means "decide from the model", which `resolve` does.

    Attributes:
        model: Hub id, short alias, local directory or `.gguf` file; a geometry name with `random_weights`.
        max_batch: most rows one program call serves.
        max_enc: most encoder output positions (encoder-decoder only).
        max_dec: most decoder positions; the context of a decoder-only model.
        max_draft: most draft tokens verified in one step.
        prefill_chunk: prompt tokens consumed by one step.
        backends: one program is written for each.
        attention: the fused operator or its form in core operators.
        quantize: how the layers' weights are stored, and with `int8-weights-kv` the caches.
        embedding_bits, group_size: of a quantized model: bits of embedding and head, inputs that share a scale.
        index_dtype: type in which the programs take token ids, positions and lengths.
        dtype: floating-point type in which caches, and matrices that are not quantized, are stored.
        draft: a model whose bundle is put inside, to propose tokens; `self-int4` is this one in 4 bits.
        random_weights, seed: seeded weights instead of a checkpoint.

    Raises:
        RecipeError: names every wrong value at once.
    """

    model: str
    max_batch: int = 1
    max_enc: int | None = None
    max_dec: int | None = None
    max_draft: int | None = None
    prefill_chunk: int | None = None
    backends: tuple[str, ...] = ("xnnpack",)
    attention: Attention | None = None
    quantize: str = "none"
    embedding_bits: int | None = None
    group_size: int | None = None
    dtype: str = "float32"
    index_dtype: str = "int64"
    draft: str | None = None
    random_weights: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        raise_if_any(RecipeError, "recipe", self._faults())

    def _faults(self) -> list[str]:
        faults = _model_faults(self.model)
        faults += _outside("--max-batch", self.max_batch, 1)
        faults += _outside("--seed", self.seed, 0, LARGEST_SEED)
        for option, value, least in (
            ("--max-draft", self.max_draft, 0),
            ("--max-enc", self.max_enc, 1),
            ("--max-dec", self.max_dec, 1),
            ("--prefill-chunk", self.prefill_chunk, 1),
        ):
            faults += [] if value is None else _outside(option, value, least)
        faults += self._backend_faults()
        if self.attention is not None:
            faults += _not_one_of("--attention", self.attention, ATTENTIONS)
        faults += _not_one_of("--quantize", self.quantize, QUANTIZATIONS)
        faults += _not_one_of("--dtype", self.dtype, DTYPES)
        faults += self._index_faults()
        faults += self._quantization_faults()
        return faults + draft_faults(self.draft, self.quantize, self.max_draft)

    def _quantization_faults(self) -> list[str]:
        faults = []
        groups, where = (ONNX_GROUPS, " with --backend onnx") if "onnx" in self.backends else (GROUPS, "")
        for option, value, allowed, place in (
            ("--embedding-bits", self.embedding_bits, EMBEDDING_BITS, ""),
            ("--group-size", self.group_size, groups, where),
        ):
            if value is not None and value not in allowed:
                faults.append(f"{option} {value} is not allowed{place}; use {', '.join(map(str, allowed))}")
            elif value is not None and self.quantize == "none":
                faults.append(f"{option} {value} needs a quantized model; add --quantize 8da8w or leave it out")
        if self.attention == "portable" and "onnx" not in self.backends:  # what ONNX lacks is said on its own
            faults += self._portable_faults()
        return faults

    def _portable_faults(self) -> list[str]:
        """What core operators and XNNPACK have no kernels for."""
        faults = []
        if self.dtype == "float16":
            faults.append("--dtype float16 needs our operators; use --attention fused or leave it out")
        if self.quantize == INT8_CACHES:
            faults.append(f"--quantize {INT8_CACHES} needs our operators; use --attention fused or --quantize 8da8w")
        if self.quantize != "none" and self.embedding_bits == 4:
            faults.append("--embedding-bits 4 needs our operators; use --attention fused or 8 bits")
        if self.quantize == "8da8w" and self.group_size is not None:
            faults.append("--group-size with 8da8w needs our operators; use --attention fused or leave it out")
        if self.quantize in ("8da8w", "8da4w") and self.backends != ("xnnpack",):
            faults.append(f"--quantize {self.quantize} with --attention portable needs --backend xnnpack, and only it")
        return faults

    def _backend_faults(self) -> list[str]:
        if isinstance(self.backends, str) or not self.backends:
            return [f"--backend needs at least one of {', '.join(BACKENDS)}"]
        if len(set(self.backends)) != len(self.backends):
            return [f"--backend is given twice in {', '.join(self.backends)}"]
        faults = [fault for backend in self.backends for fault in _not_one_of("--backend", backend, BACKENDS)]
        return faults + (self._onnx_faults() if "onnx" in self.backends else [])

    def _index_faults(self) -> list[str]:
        """ExecuTorch's kernels take indices of 64 bits."""
        if self.index_dtype == "int64" or self.backends == ("onnx",):
            return _not_one_of("--index-dtype", self.index_dtype, INDEX_DTYPES)
        return [f"--index-dtype {self.index_dtype} needs --backend onnx, and only it; leave it out"]

    def _onnx_faults(self) -> list[str]:
        """What ONNX programs, made of standard operators, do not do."""
        if self.attention == "fused":
            return ["--attention fused is an operator of ours, which ONNX does not have; use portable or leave it out"]
        faults = []
        if self.quantize == INT8_CACHES:
            faults.append(f"--quantize {INT8_CACHES} is not available with --backend onnx; use 8da8w, or leave it out")
        if self.group_size == WHOLE_FEATURE and (self.quantize == "8da4w" or self.embedding_bits == 4):
            faults.append(f"--group-size {WHOLE_FEATURE} is for 8 bits, and 4 bits need groups; use 32, or 8 bits")
        others = [backend for backend in self.backends if backend != "onnx"]
        if others and (self.quantize != "none" or self.dtype != "float32"):
            option = f"--dtype {self.dtype}" if self.quantize == "none" else f"--quantize {self.quantize}"
            fault = f"{option} means other numbers with --backend onnx than with {' and '.join(others)}"
            faults.append(f"{fault}; export a bundle for each")
        return faults

    def _resolved_group(self) -> int | None:
        """Weights that share a scale; None where nothing is quantized or a feature has one scale."""
        is_portable = self.attention == "portable" and self.quantize == "8da8w"
        has_one = self.group_size == WHOLE_FEATURE if "onnx" in self.backends else is_portable
        return None if self.quantize == "none" or has_one else self.group_size or DEFAULT_GROUP

    def resolve(self, spec: ModelSpec) -> ResolvedRecipe:
        """Decide everything that was left open, from the model's own limits.

        Raises:
            PlanError: a limit that the model does not allow; names every one at once.
        """
        max_dec = self.max_dec if self.max_dec is not None else _default_max_dec(spec)
        chunk = DEFAULT_CHUNK_DECODER_ONLY if spec.kind == "decoder_only" else DEFAULT_CHUNK_SEQ2SEQ
        resolved = ResolvedRecipe(
            model=self.model,
            max_batch=self.max_batch,
            max_enc=self.max_enc if self.max_enc is not None else _default_max_enc(spec),
            max_dec=max_dec,
            max_draft=self.max_draft if self.max_draft is not None else min(DEFAULT_DRAFT, max_dec - 1),
            prefill_chunk=self.prefill_chunk if self.prefill_chunk is not None else min(chunk, max_dec),
            backends=tuple(self.backends),
            attention=self.attention or "fused",
            quantize=self.quantize,
            embedding_bits=None if self.quantize == "none" else self.embedding_bits or EMBEDDING_BITS[0],
            group_size=self._resolved_group(),
            dtype=self.dtype,
            index_dtype=self.index_dtype,
            draft=self.draft,
        )
        raise_if_any(PlanError, self.model, limit_faults(spec, resolved))
        return resolved


def _default_max_dec(spec: ModelSpec) -> int:
    if spec.kind == "speech_seq2seq" and spec.max_positions is not None:
        return spec.max_positions
    default = DEFAULT_CONTEXT if spec.kind == "decoder_only" else DEFAULT_TEXT_DECODER
    return default if spec.max_positions is None else min(spec.max_positions, default)


def _default_max_enc(spec: ModelSpec) -> int | None:
    if spec.encoder is None:
        return None
    if spec.encoder.fixed_length is not None:
        return spec.encoder.fixed_length
    sound = spec.encoder.sound
    default = DEFAULT_ENCODER if sound is None else sound.positions.hops(DEFAULT_SECONDS * sound.sampling_rate)
    limit = spec.encoder.max_positions
    return default if limit is None else min(limit, default)


def _model_faults(model: object) -> list[str]:
    """The name goes into the manifest, which is UTF-8."""
    if not isinstance(model, str) or not model.strip():
        return ["MODEL is empty"]
    if any("\ud800" <= character <= "\udfff" for character in model):
        return [f"MODEL {pictured(model)} is not UTF-8 text; rename the file or directory"]
    return []


def _outside(option: str, value: object, minimum: int, maximum: int = LARGEST_SIZE) -> list[str]:
    bound = f"at least {minimum}"
    if isinstance(value, int) and not isinstance(value, bool):
        if minimum <= value <= maximum:
            return []
        bound = f"at most {maximum}" if value > maximum else bound
    return [f"{option} {pictured(value)} is not allowed; use a whole number of {bound}"]


def _not_one_of(option: str, value: str, known: Collection[str]) -> list[str]:
    return [] if value in known else [f"{option} {value} is unknown; available: {', '.join(known)}"]
