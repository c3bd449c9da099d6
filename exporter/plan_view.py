"""A capacity plan for people (tables and bars) and for programs (JSON)."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from exporter.spec.capacity_plan import CapacityPlan
from runtime_shims.commands.inspect_memory import group_caches
from runtime_shims.contract.formatting import format_bytes
from runtime_shims.contract.manifest import CacheEntry

BAR_WIDTH = 32
_KIND_NAMES = {"full": "full attention", "sliding": "sliding window", "cross": "cross-attention"}
MODEL_KIND_NAMES = {
    "decoder_only": "decoder-only",
    "text_seq2seq": "text encoder-decoder",
    "speech_seq2seq": "speech encoder-decoder",
}


def render_plan(plan: CapacityPlan) -> RenderableType:
    """Limits, one line per group of equal caches, memory, and what other caches would take."""
    return Group(_heading(plan), _limits(plan), Text(), _cache_table(plan), Text(), _memory(plan))


def plan_json(plan: CapacityPlan) -> dict[str, Any]:
    """Everything that `render_plan` shows, in plain JSON types; sizes are bytes."""
    return {
        "model": plan.recipe.model,
        "kind": plan.kind,
        "recipe": asdict(plan.recipe),
        "limits": asdict(plan.limits()),
        "caches": [asdict(entry) for entry in plan.entries()],
        "parameter_count": plan.parameter_count,
        "memory": {
            "weights_bytes": plan.weights_bytes,
            "cache_bytes": plan.cache_bytes,
            "logits_bytes": plan.logits_bytes,
            "total_bytes": plan.total_bytes,
        },
        "compared": {
            "dynamic_cache_bytes": plan.dynamic_cache_bytes,
            "static_cache_bytes": plan.static_cache_bytes,
        },
    }


def cache_lines(plan: CapacityPlan) -> list[tuple[str, CacheEntry, int]]:
    """Equal caches as one: `15 x sliding window 512 -> 643 slots`, one of them, and the bytes of all."""
    return [
        (
            f"{len(group)} x {_KIND_NAMES[group[0].kind]} {group[0].reach} -> {group[0].slots} slots",
            group[0],
            sum(entry.size_bytes for entry in group),
        )
        for group in group_caches(plan.entries())
    ]


def _heading(plan: CapacityPlan) -> Text:
    millions = f"{plan.parameter_count / 1e6:,.1f} M parameters"
    facts = f"{MODEL_KIND_NAMES[plan.kind]}, {millions}, {_weights(plan)}"
    return Text.assemble((plan.recipe.model, "bold"), f"  {facts}")


def _weights(plan: CapacityPlan) -> str:
    """How weights are stored, in words."""
    recipe = plan.recipe
    if recipe.quantize == "none":
        return recipe.dtype
    return f"{recipe.quantize} in groups of {recipe.group_size}, embedding {recipe.embedding_bits} bits"


def _limits(plan: CapacityPlan) -> Text:
    recipe = plan.recipe
    encoder = "" if recipe.max_enc is None else f"encoder {recipe.max_enc}, "
    return Text(
        f"batch {recipe.max_batch}, {encoder}decoder {recipe.max_dec}, "
        f"step {plan.max_step} (prefill {recipe.prefill_chunk}, drafts {recipe.max_draft})",
        style="dim",
    )


def _cache_table(plan: CapacityPlan) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("caches")
    for title in ("heads", "head size", "memory"):
        table.add_column(title, justify="right")
    for line, entry, size in cache_lines(plan):
        sizes = sorted({entry.key_dim, entry.value_dim})
        table.add_row(line, str(entry.kv_heads), "/".join(map(str, sizes)), format_bytes(size))
    return table


def _memory(plan: CapacityPlan) -> Table:
    """Sizes, and the caches beside what caches of other kinds would take."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_column()
    table.add_row("weights", format_bytes(plan.weights_bytes), "")
    table.add_row("logits", format_bytes(plan.logits_bytes), "")
    rivals = (
        ("caches", plan.cache_bytes),
        ("  exact size, every row full", plan.dynamic_cache_bytes),
        ("  static, no ring", plan.static_cache_bytes),
    )
    longest = max(size for _, size in rivals)
    for index, (name, size) in enumerate(rivals):
        table.add_row(name, format_bytes(size), _bar(size, longest), style="dim" if index else "")
    table.add_row("total before activations", format_bytes(plan.total_bytes), "", style="bold")
    return table


def _bar(size: int, longest: int) -> str:
    return "█" * max(1, round(BAR_WIDTH * size / longest))
