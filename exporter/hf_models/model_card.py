"""The model card of a bundle: its plan, its figures, its versions, and how to run it. All of it from the manifest."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.bundle.tolerances import tolerance
from exporter.hf_models.opening import CLASSES
from runtime_shims.commands.inspect_memory import group_caches
from runtime_shims.contract.formatting import format_bytes
from runtime_shims.contract.manifest import Manifest, ModelKind

PIPELINE_TAGS: dict[ModelKind, str] = {
    "decoder_only": "text-generation",
    "text_seq2seq": "text2text-generation",
    "speech_seq2seq": "automatic-speech-recognition",
}
_INPUTS: dict[ModelKind, tuple[str, str]] = {
    "decoder_only": ('--prompt "..."', "--ids 1,2,3"),
    "text_seq2seq": ('--prompt "..."', "--ids 1,2,3"),
    "speech_seq2seq": ("--audio speech.wav", "--audio speech.wav"),
}
"""Options of `run-model generate` and of `bundle-runner`."""


def model_card(manifest: Manifest, licence: str | None = None) -> str:
    """The text of README.md, in Markdown with the Hub's metadata.

    `licence` is that of the weights, as the Hub names it; None: the card says nothing of it.
    """
    parts = (_metadata(manifest, licence), _heading(manifest), _run(manifest), _plan(manifest), _figures(manifest))
    return "\n".join(line for part in parts for line in (*part, ""))


def base_model(manifest: Manifest) -> str | None:
    """The Hub id of the checkpoint, where the weights are one's; directories and files have names only."""
    source = manifest.source
    return source.model if "/" in source.model and not source.random_weights else None


def _metadata(manifest: Manifest, licence: str | None) -> Iterator[str]:
    base = base_model(manifest)
    yield "---"
    yield "library_name: fixed-capacity"
    yield f"pipeline_tag: {PIPELINE_TAGS[manifest.kind]}"
    if base is not None:
        yield f"base_model: {base}"
    if licence is not None:
        yield f"license: {licence}"
    yield "tags:"
    yield from (f"- {tag}" for tag in ("fixed-capacity", *dict.fromkeys(one.format for one in manifest.programs)))
    yield "---"


def _heading(manifest: Manifest) -> Iterator[str]:
    source = manifest.source
    revision = f" at revision `{source.revision}`" if source.revision else ""
    weights = f", random weights of seed {source.seed}" if source.random_weights else ""
    yield f"# {source.model.rpartition('/')[2]}, fixed capacity"
    yield ""
    yield f"`{source.model}`{revision}{weights}, {source.architecture}, exported to programs whose caches have a fixed"
    yield "capacity. Any batch and any lengths up to the limits below run in the same memory."


def _run(manifest: Manifest) -> Iterator[str]:
    in_python, in_cpp = _INPUTS[manifest.kind]
    yield "## Run it"
    yield "```"
    yield f"run-model generate BUNDLE {in_python}"
    yield f"bundle-runner --bundle BUNDLE {in_cpp}"
    yield "```"
    yield "```python"
    yield f"from exporter.hf import {CLASSES[manifest.kind]}, pipeline"
    yield ""
    yield f'model = {CLASSES[manifest.kind]}.from_pretrained("BUNDLE")   # a directory, or the id of this repository'
    yield f'pipeline("{PIPELINE_TAGS[manifest.kind]}", model=model)("...")'
    yield "```"


def _plan(manifest: Manifest) -> Iterator[str]:
    limits, memory = manifest.limits, manifest.memory
    yield "## Plan"
    yield "| limit | at most |"
    yield "|---|---|"
    yield f"| rows at once | {limits.max_batch:,} |"
    if limits.max_enc is not None:
        yield f"| encoder positions | {limits.max_enc:,} |"
    if manifest.speech is not None:
        yield f"| sound at once | {manifest.speech.samples / manifest.speech.sampling_rate:g} s |"
    yield f"| decoder positions | {limits.max_dec:,} |"
    yield f"| drafts verified in a step | {limits.max_draft:,} |"
    yield ""
    yield "| caches | heads | head size | memory |"
    yield "|---|---|---|---|"
    for group in group_caches(manifest.caches):
        one, size = group[0], sum(entry.size_bytes for entry in group)
        name = f"{len(group)} x {one.kind} {one.reach} -> {one.slots} slots, {one.dtype}"
        yield f"| {name} | {one.kv_heads} | {one.key_dim} | {format_bytes(size)} |"
    yield f"| all of them | | | {format_bytes(memory.cache_bytes)} |"
    yield ""
    yield f"{format_bytes(memory.planned_bytes)} are planned at run time, the caches included. {memory.note}"


def _figures(manifest: Manifest) -> Iterator[str]:
    recipe, weights = manifest.recipe, format_bytes(manifest.memory.weights_bytes)
    sizes = {entry.path: entry.size_bytes for entry in manifest.files}
    yield "## Figures"
    yield f"{manifest.source.parameter_count:,} parameters, {weights} of weights; quantization"
    yield f"`{recipe.quantize}`, floating-point type `{recipe.dtype}`."
    yield ""
    yield "| program | attention | file | logits held to eager PyTorch's within |"
    yield "|---|---|---|---|"
    for program in manifest.programs:
        allowed = f"{tolerance(recipe, program.backend).relative:g} of the largest"
        yield f"| `{program.file}` | {program.attention} | {format_bytes(sizes[program.file])} | {allowed} |"
    yield ""
    whose = "the original model" if recipe.quantize == "none" else "the model over these rounded weights"
    yield f"The bundle holds answers of {whose}; `run-model verify BUNDLE` repeats them."
    yield ""
    yield f"Made with {', '.join(f'{package.name} {package.version}' for package in manifest.packages)}."
