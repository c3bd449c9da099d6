"""The memory part of `inspect`: cache layers in groups, and a bar for everything that takes memory."""

from __future__ import annotations

from collections.abc import Sequence

from rich.bar import Bar
from rich.table import Table

from runtime_shims.commands.common import megabytes
from runtime_shims.contract.manifest import CacheEntry, Manifest

BAR_COLUMNS = 40


def caches(manifest: Manifest) -> Table:
    """Layers whose caches are alike share a row."""
    table = Table(title="Caches", title_justify="left")
    for column in ("kind", "layers", "reach", "slots", "heads", "head size", "type", "size"):
        table.add_column(column, justify="left" if column in ("kind", "layers", "type") else "right")
    for group in group_caches(manifest.caches):
        first = group[0]
        size = (
            str(first.key_dim) if first.key_dim == first.value_dim else f"{first.key_dim}+{first.value_dim}"
        )
        table.add_row(
            first.kind,
            layer_ranges([entry.layer for entry in group]),
            f"{first.reach:,}",
            f"{first.slots:,}",
            str(first.kv_heads),
            size,
            first.dtype,
            megabytes(sum(entry.size_bytes for entry in group)),
        )
    return table


def memory_map(manifest: Manifest) -> Table:
    """Weights, caches by kind and activations as bars of their share."""
    memory = manifest.memory
    parts = [("weights", memory.weights_bytes)]
    for kind in ("full", "sliding", "cross"):
        size = sum(entry.size_bytes for entry in manifest.caches if entry.kind == kind)
        if size:
            parts.append((f"caches, {kind}", size))
    parts.append(("activations", memory.activation_bytes))
    total = sum(size for _, size in parts)
    table = Table(
        title=f"Memory: {megabytes(total)}, {megabytes(memory.planned_bytes)} of it planned at export",
        title_justify="left",
        caption=memory.note or None,
        caption_justify="left",
    )
    table.add_column("")
    table.add_column("size", justify="right")
    table.add_column("share", justify="right")
    table.add_column("", width=BAR_COLUMNS)
    for name, size in parts:
        share = size / total if total else 0.0
        table.add_row(name, megabytes(size), f"{share:.0%}", Bar(1.0, 0.0, share, width=BAR_COLUMNS))
    return table


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


def layer_ranges(layers: Sequence[int]) -> str:
    """Layer numbers as ranges: [0, 1, 2, 4, 6] is "0-2, 4, 6"."""
    ranges: list[list[int]] = []
    for layer in sorted(layers):
        if ranges and layer == ranges[-1][1] + 1:
            ranges[-1][1] = layer
        else:
            ranges.append([layer, layer])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)
