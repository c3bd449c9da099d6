"""The tables of `inspect` that restate the manifest: model, capacities, token rules, files."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group
from rich.text import Text

from runtime_shims.commands.tables import new_table, titled
from runtime_shims.contract.formatting import format_bytes
from runtime_shims.contract.manifest import Manifest
from runtime_shims.contract.manifest_rules import SELF_INT4

SHOWN_TOKENS = 12
"""Longer token lists are shown by their first few ids and their number."""


def heading(manifest: Manifest) -> Text:
    """Model, kind, size, how it was made."""
    source, recipe = manifest.source, manifest.recipe
    weights = f"random weights, seed {source.seed}" if source.random_weights else "trained weights"
    revision = f" @ {source.revision}" if source.revision else ""
    packages = ", ".join(f"{package.name} {package.version}" for package in manifest.packages)
    return Text.assemble(
        (f"{source.model}{revision}\n", "bold"),
        f"{source.architecture} ({source.model_type}), {manifest.kind}, "
        f"{source.parameter_count:,} parameters, {weights}\n",
        f"quantization {manifest.quantization}, {recipe.dtype}, {recipe.attention} attention, "
        f"format {manifest.format_version}\n",
        (packages, "dim"),
    )


def capacities(manifest: Manifest) -> Group:
    """Every upper bound beside the option that sets it."""
    limits = manifest.limits
    table = new_table(["", ">at most", "set by"])
    table.add_row("rows at once", f"{limits.max_batch:,}", "--max-batch")
    if limits.max_enc is not None:
        table.add_row("encoder positions", f"{limits.max_enc:,}", "--max-enc")
    if limits.source_shape is not None:
        table.add_row("encoder input", " x ".join(map(str, limits.source_shape)), "model")
    if manifest.speech is not None:
        rate, samples = manifest.speech.sampling_rate, manifest.speech.samples
        option = "model" if manifest.speech.positions is None else "--max-enc"
        table.add_row("sound", f"{samples / rate:g} s at {rate:,} Hz", option)
    table.add_row("decoder positions", f"{limits.max_dec:,}", "--max-dec")
    table.add_row("drafted tokens per step", f"{limits.max_draft:,}", "--max-draft")
    table.add_row("prompt tokens per step", f"{manifest.recipe.prefill_chunk:,}", "--prefill-chunk")
    table.add_row("new tokens by default", _or_none(manifest.generation.max_new_tokens), "model")
    return titled("Capacities (anything up to them is served)", table)


def own_draft(manifest: Manifest, draft: Manifest) -> Group:
    """The model inside the bundle that proposes tokens for it."""
    name = manifest.recipe.draft or draft.source.model
    table = new_table(["model", "quantization", ">weights", ">planned", "run it with"])
    weights, planned = draft.memory.weights_bytes, draft.memory.planned_bytes
    how = f"--speculate {'self' if name == SELF_INT4 else 'draft'} or auto"
    table.add_row(name, draft.quantization, format_bytes(weights), format_bytes(planned), how)
    return titled("Draft", table)


def token_rules(manifest: Manifest) -> Group:
    """Which tokens start, end, are forced or may not appear."""
    rules = manifest.tokens
    table = new_table(["", "ids"])
    table.add_row("start", _ids(rules.start))
    table.add_row("end", _ids(rules.eos))
    table.add_row("padding", _or_none(rules.pad))
    table.add_row("forced", ", ".join(f"{f.token} at {f.position}" for f in rules.forced) or "-")
    table.add_row("never", _ids(rules.suppress))
    table.add_row("never first", _ids(rules.begin_suppress))
    return titled(f"Tokens ({rules.vocab_size:,} in the vocabulary)", table)


def files(manifest: Manifest) -> Group:
    """Every file with its role, size and the first digits of its hash."""
    table = new_table(["path", "role", ">size", "sha256"])
    for entry in manifest.files:
        table.add_row(entry.path, entry.role, format_bytes(entry.size_bytes), entry.sha256[:12])
    total = sum(entry.size_bytes for entry in manifest.files)
    table.add_section()
    table.add_row(f"{len(manifest.files)} files", "", format_bytes(total), "")
    return titled("Files", table)


def _ids(tokens: Sequence[int]) -> str:
    """Token ids, shortened."""
    shown = ", ".join(map(str, tokens[:SHOWN_TOKENS]))
    return f"{shown}, ... ({len(tokens)} in all)" if len(tokens) > SHOWN_TOKENS else shown or "-"


def _or_none(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
