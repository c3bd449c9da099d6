"""The memory part of `inspect`: cache layers in groups, and a bar for everything that takes memory."""

from __future__ import annotations

from collections.abc import Sequence

from rich.bar import Bar
from rich.console import Group
from rich.text import Text

from runtime_shims.commands.tables import new_table, titled
from runtime_shims.contract.formatting import format_bytes, format_ranges
from runtime_shims.contract.manifest import CacheEntry, Manifest

BAR_COLUMNS = 40


def caches(manifest: Manifest) -> Group:
    """Layers whose caches are alike share a row."""
    table = new_table(["kind", "layers", ">reach", ">slots", ">heads", ">head size", "type", ">size"])
    for group in group_caches(manifest.caches):
        first = group[0]
        size = (
            str(first.key_dim) if first.key_dim == first.value_dim else f"{first.key_dim}+{first.value_dim}"
        )
        table.add_row(
            first.kind,
            format_ranges([entry.layer for entry in group]),
            f"{first.reach:,}",
            f"{first.slots:,}",
            str(first.kv_heads),
            size,
            first.dtype,
            format_bytes(sum(entry.size_bytes for entry in group)),
        )
    return titled("Caches", table)


def memory_map(manifest: Manifest, draft: Manifest | None = None) -> Group:
    """Weights, caches by kind, activations, and what the model inside the bundle takes, as bars of their share."""
    memory = manifest.memory
    parts = [("weights", memory.weights_bytes)]
    for kind in ("full", "sliding", "cross"):
        size = sum(entry.size_bytes for entry in manifest.caches if entry.kind == kind)
        if size:
            parts.append((f"caches, {kind}", size))
    parts.append(("activations", memory.activation_bytes))
    planned = memory.planned_bytes
    if draft is not None:
        parts += [("draft, weights", draft.memory.weights_bytes), ("draft, planned", draft.memory.planned_bytes)]
        planned += draft.memory.planned_bytes
    total = sum(size for _, size in parts)
    table = new_table(["", ">size", ">share", ""])
    for name, size in parts:
        share = size / total if total else 0.0
        table.add_row(name, format_bytes(size), f"{share:.0%}", Bar(1.0, 0.0, share, width=BAR_COLUMNS))
    title = f"Memory: {format_bytes(total)}, {format_bytes(planned)} of it planned at export"
    return titled(title, table, Text(memory.note, "dim"))


def group_caches(entries: Sequence[CacheEntry]) -> list[list[CacheEntry]]:
    """Entries of one geometry together, groups in order of their first layer."""
    groups: dict[tuple[object, ...], list[CacheEntry]] = {}
    for entry in entries:
        key = (
            entry.kind,
            entry.reach,
            entry.slots,
            entry.kv_heads,
            entry.key_dim,
            entry.value_dim,
            entry.dtype,
        )
        groups.setdefault(key, []).append(entry)
    return list(groups.values())
