"""What the types of the manifest cannot say: its parts must agree with each other.

Every rule returns the faults it finds, each naming its place in the manifest; none stops at the first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime_shims.contract.cache_types import position_bytes
from runtime_shims.contract.method_rules import method_faults, repeated
from runtime_shims.contract.onnx_names import method_path, other_files

if TYPE_CHECKING:
    from runtime_shims.contract.manifest import CacheEntry, FileEntry, Limits, Manifest, ProgramEntry

DRAFT_MANIFEST = "draft/manifest.json"
"""Where the manifest of a bundle's own draft lies."""
SELF_INT4 = "self-int4"
"""The own draft that is the same model in 4 bits."""


def rule_faults(manifest: Manifest) -> list[str]:
    """Every contradiction in a manifest whose types are right."""
    return [
        *_limit_faults(manifest),
        *_kind_faults(manifest),
        *_cache_faults(manifest),
        *_memory_faults(manifest),
        *_program_faults(manifest),
        *method_faults(manifest),
        *_token_faults(manifest),
        *_file_faults(manifest),
        *_source_faults(manifest),
    ]


def _equal(path: str, got: object, wanted: object, reason: str) -> list[str]:
    """One fault unless `got` is `wanted`; `reason` says where the wanted value comes from."""
    return [] if got == wanted else [f"{path}: expected {wanted} ({reason}), got {got}"]


def _limit_faults(manifest: Manifest) -> list[str]:
    limits, recipe = manifest.limits, manifest.recipe
    max_step = max(recipe.prefill_chunk, recipe.max_draft + 1)
    logit_rows = recipe.max_draft + 1
    return [
        *_equal("limits.max_batch", limits.max_batch, recipe.max_batch, "recipe.max_batch"),
        *_equal("limits.max_enc", limits.max_enc, recipe.max_enc, "recipe.max_enc"),
        *_equal("limits.max_dec", limits.max_dec, recipe.max_dec, "recipe.max_dec"),
        *_equal("limits.max_draft", limits.max_draft, recipe.max_draft, "recipe.max_draft"),
        *_equal("limits.max_step", limits.max_step, max_step, "max(prefill_chunk, max_draft + 1)"),
        *_equal("limits.max_logit_rows", limits.max_logit_rows, logit_rows, "max_draft + 1"),
    ]


def _kind_faults(manifest: Manifest) -> list[str]:
    """The encoder's parts are there exactly when the kind has an encoder."""
    kind, limits = manifest.kind, manifest.limits
    has_encoder, is_speech = kind != "decoder_only", kind == "speech_seq2seq"
    follows_sound = is_speech and manifest.sound_positions is not None
    parts = (
        ("limits.max_enc", has_encoder, limits.max_enc is not None),
        ("limits.source_shape", is_speech and not follows_sound, limits.source_shape is not None),
        ("speech", is_speech and manifest.speech is not None, manifest.speech is not None),
        ("assistant", not has_encoder and manifest.assistant is not None, manifest.assistant is not None),
        ("caches of kind cross", has_encoder, any(entry.kind == "cross" for entry in manifest.caches)),
    )
    faults = [
        f"{path}: expected {'a value' if wanted else 'none'} (kind is {kind}), got {'one' if got else 'none'}"
        for path, wanted, got in parts
        if wanted != got
    ]
    if has_encoder and not manifest.tokens.start:
        faults.append(f"tokens.start: expected at least one token (kind is {kind}), got none")
    return faults + _sound_faults(manifest)


def _sound_faults(manifest: Manifest) -> list[str]:
    """Sound of any length ends where the encoder's positions do."""
    speech, max_enc = manifest.speech, manifest.limits.max_enc
    if speech is None or speech.positions is None or max_enc is None:
        return []
    most = speech.positions.most_samples(max_enc)
    return _equal("speech.samples", speech.samples, most, "hops of limits.max_enc positions")


def _cache_faults(manifest: Manifest) -> list[str]:
    entries = manifest.caches
    faults = repeated("caches, names", (entry.name for entry in entries))
    faults += repeated("caches, self-attention layers", (e.layer for e in entries if e.kind != "cross"))
    faults += repeated("caches, cross-attention layers", (e.layer for e in entries if e.kind == "cross"))
    if not any(entry.kind != "cross" for entry in entries):
        faults.append("caches: expected at least one self-attention cache, got none")
    for index, entry in enumerate(entries):
        faults += _geometry_faults(f"caches[{index}]", entry, manifest.limits)
        faults += _cache_size_faults(f"caches[{index}]", entry, manifest.limits.max_batch)
    total = sum(entry.size_bytes for entry in entries)
    return faults + _equal("memory.cache_bytes", manifest.memory.cache_bytes, total, "sum over caches")


def _geometry_faults(path: str, entry: CacheEntry, limits: Limits) -> list[str]:
    """The cache law, stated again on the manifest's numbers."""
    if entry.kind == "cross":
        if limits.max_enc is None:  # already a fault of the kind
            return []
        return [
            *_equal(f"{path}.reach", entry.reach, limits.max_enc, "max_enc"),
            *_equal(f"{path}.slots", entry.slots, limits.max_enc, "max_enc"),
        ]
    faults = _equal(f"{path}.slots", entry.slots, entry.reach + limits.max_step - 1, "reach + max_step - 1")
    if entry.kind == "full":
        return faults + _equal(f"{path}.reach", entry.reach, limits.max_dec, "max_dec")
    if entry.reach > limits.max_dec:
        faults.append(f"{path}.reach: expected at most {limits.max_dec} (max_dec), got {entry.reach}")
    return faults


def _cache_size_faults(path: str, entry: CacheEntry, max_batch: int) -> list[str]:
    of_head = position_bytes(entry.dtype, entry.key_dim) + position_bytes(entry.dtype, entry.value_dim)
    size = max_batch * entry.kv_heads * entry.slots * of_head
    reason = f"max_batch * kv_heads * slots * {of_head} for key_dim and value_dim in {entry.dtype}"
    return _equal(f"{path}.size_bytes", entry.size_bytes, size, reason)


def _memory_faults(manifest: Manifest) -> list[str]:
    """What is planned is the largest program's, and holds the caches and the activations exactly."""
    memory = manifest.memory
    if not manifest.programs:  # a fault of the programs
        return []
    largest = max(program.planned_bytes for program in manifest.programs)
    caches = sum(entry.size_bytes for entry in manifest.caches)
    activations = max(0, memory.planned_bytes - caches)
    return [
        *_equal("memory.planned_bytes", memory.planned_bytes, largest, "largest planned_bytes of a program"),
        *_equal("memory.activation_bytes", memory.activation_bytes, activations, "planned_bytes - caches"),
    ]


def _program_faults(manifest: Manifest) -> list[str]:
    programs, recipe = manifest.programs, manifest.recipe
    if not programs:
        return ["programs: expected at least one, got none"]
    faults = repeated("recipe.backends", recipe.backends)
    faults += repeated("programs, backends", (program.backend for program in programs))
    backends = ", ".join(sorted({program.backend for program in programs}))
    wanted = ", ".join(sorted(set(recipe.backends)))
    faults += _equal("programs, backends", backends, wanted, "recipe.backends")
    program_files = {entry.path for entry in manifest.files if entry.role == "program"}
    for index, program in enumerate(programs):
        path = f"programs[{index}]"
        faults += _one_program_faults(path, program)
        if program.file not in program_files:
            faults.append(f'{path}.file: "{program.file}" is not listed under files with role "program"')
        missing = [file for file in other_files(program) if file not in program_files]
        faults += [f'{path}: "{file}" is not listed under files with role "program"' for file in missing]
    return faults


def _one_program_faults(path: str, program: ProgramEntry) -> list[str]:
    by_backend = "onnx" if program.backend == "onnx" else "executorch"
    needs_library = program.format == "executorch" and program.attention == "fused"
    required = program.operator_library_required
    reason = f"format {program.format}, attention {program.attention}"
    faults = [
        *_equal(f"{path}.format", program.format, by_backend, f"backend {program.backend}"),
        *_equal(f"{path}.operator_library_required", required, needs_library, reason),
    ]
    if program.format == "onnx":
        faults += _equal(f"{path}.attention", program.attention, "portable", "format onnx")
        faults += _equal(f"{path}.file", program.file, method_path(program.file, "decode"), "format onnx")
    return faults


def _token_faults(manifest: Manifest) -> list[str]:
    tokens, max_dec = manifest.tokens, manifest.limits.max_dec
    vocab_size = tokens.vocab_size
    faults = _equal("tokens.vocab_size", vocab_size, manifest.source.vocab_size, "source.vocab_size")
    positions = [rule.position for rule in tokens.forced]
    lists = {
        "eos": tokens.eos,
        "pad": () if tokens.pad is None else (tokens.pad,),
        "start": tokens.start,
        "forced": tuple(rule.token for rule in tokens.forced),
        "suppress": tokens.suppress,
        "begin_suppress": tokens.begin_suppress,
    }
    for name, ids in lists.items():
        wrong = [token for token in ids if token >= vocab_size]
        faults += [f"tokens.{name}: expected ids below {vocab_size}, got {token}" for token in wrong]
    for name in ("eos", "suppress", "begin_suppress"):
        faults += repeated(f"tokens.{name}", lists[name])
    faults += repeated("tokens.forced, positions", positions)
    wrong = [position for position in positions if position >= max_dec]
    faults += [f"tokens.forced: expected positions below {max_dec}, got {position}" for position in wrong]
    if len(tokens.start) > max_dec:
        faults.append(f"tokens.start: expected at most {max_dec} tokens, got {len(tokens.start)}")
    return faults


def _file_faults(manifest: Manifest) -> list[str]:
    """No file is listed twice, even on a disk that ignores case, and no file is also a directory."""
    files: tuple[FileEntry, ...] = manifest.files
    folded = [entry.path.casefold() for entry in files]
    faults = repeated("files, paths", folded)
    if "manifest.json" in folded:
        faults.append("files: manifest.json cannot list itself")
    directories = {
        "/".join(path.split("/")[:depth]) for path in folded for depth in range(1, path.count("/") + 1)
    }
    faults += [f'files: "{path}" is also a directory' for path in folded if path in directories]
    return faults + _draft_faults(manifest)


def _draft_faults(manifest: Manifest) -> list[str]:
    """A bundle that drafts for this one is named by its manifest, exactly when the recipe asks for one."""
    listed = [entry.path for entry in manifest.files if entry.role == "draft"]
    draft = manifest.recipe.draft
    wanted = [] if draft is None or manifest.assistant is not None else [DRAFT_MANIFEST]
    if listed == wanted:
        return []
    asked = "recipe.draft is null" if draft is None else f'recipe.draft is "{draft}"'
    asked += "" if manifest.assistant is None else ", an assistant"
    expected, got = ", ".join(wanted) or "none", ", ".join(listed) or "none"
    return [f'files with role "draft": expected {expected} ({asked}), got {got}']


def _source_faults(manifest: Manifest) -> list[str]:
    source, faults = manifest.source, []
    if source.random_weights and source.seed is None:
        faults.append("source.seed: expected an integer (the weights are random), got null")
    if not source.random_weights and source.seed is not None:
        faults.append(f"source.seed: expected null (the weights are not random), got {source.seed}")
    faults += _equal("quantization", manifest.quantization, manifest.recipe.quantize, "recipe.quantize")
    return faults + repeated("packages, names", (package.name for package in manifest.packages))
