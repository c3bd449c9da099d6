"""Whether the memory that a plan needs is there: what the user allows, and what this machine has."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from exporter.spec.faults import PlanError
from runtime_shims.contract.formatting import format_bytes

if TYPE_CHECKING:
    from exporter.spec.capacity_plan import CapacityPlan


def require_budget(
    plan: CapacityPlan, max_memory_bytes: int | None, draft: CapacityPlan | None = None
) -> None:
    """Raise PlanError when the plan, and the plan of what drafts for it, exceed `max_memory_bytes`; None allows any."""
    total, fixed = _total(plan, draft)
    if max_memory_bytes is None or total <= max_memory_bytes:
        return
    advice = f"lower {_options(plan)}, or raise --max-memory"
    if fixed >= max_memory_bytes:
        advice = "raise --max-memory or choose a smaller model"
    fault = f"{needed(plan, draft)}, more than --max-memory {format_bytes(max_memory_bytes)}; {advice}"
    raise PlanError(plan.recipe.model, [fault])


def require_machine(plan: CapacityPlan, machine_bytes: int | None, draft: CapacityPlan | None = None) -> None:
    """Raise PlanError when the plan, and that of what drafts for it, exceed this machine's memory, if it is known."""
    total, fixed = _total(plan, draft)
    if machine_bytes is None or total <= machine_bytes:
        return
    advice = "give --max-memory to export it for a larger machine"
    if fixed < machine_bytes:
        advice = f"lower {_options(plan)}, or {advice}"
    fault = f"{needed(plan, draft)}, more than the {format_bytes(machine_bytes)} of this machine; {advice}"
    raise PlanError(plan.recipe.model, [fault])


def require_planned(
    plan: CapacityPlan, planned_bytes: int, max_memory_bytes: int | None, draft_bytes: int = 0
) -> None:
    """Raise PlanError when weights and planned memory, activations included, exceed `max_memory_bytes`.

    Activations are known only once a program is lowered, so this is the second look, before a bundle is finished.
    `draft_bytes` is what the bundle's draft takes.
    """
    total = plan.weights_bytes + planned_bytes + draft_bytes
    if max_memory_bytes is None or total <= max_memory_bytes:
        return
    parts = f"weights {format_bytes(plan.weights_bytes)}, caches, logits and activations {format_bytes(planned_bytes)}"
    parts += f", its draft {format_bytes(draft_bytes)}" if draft_bytes else ""
    fault = f"the program takes {format_bytes(total)} ({parts}), more than --max-memory "
    fault += f"{format_bytes(max_memory_bytes)}; lower {_options(plan)} or --prefill-chunk, or raise --max-memory"
    raise PlanError(plan.recipe.model, [fault])


def needed(plan: CapacityPlan, draft: CapacityPlan | None = None) -> str:
    """The total and its parts, as the beginning of a message."""
    parts = f"weights {format_bytes(plan.weights_bytes)}, caches {format_bytes(plan.cache_bytes)}, logits "
    parts += format_bytes(plan.logits_bytes)
    parts += "" if draft is None else f", its draft {format_bytes(draft.total_bytes)}"
    return f"it needs {format_bytes(_total(plan, draft)[0])} ({parts})"


def _total(plan: CapacityPlan, draft: CapacityPlan | None) -> tuple[int, int]:
    """Bytes in all, and those that no limit lowers."""
    plans = [plan] if draft is None else [plan, draft]
    return sum(one.total_bytes for one in plans), sum(one.weights_bytes for one in plans)


def machine_memory_bytes() -> int | None:
    """Physical memory of this machine; None where the system does not say."""
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on every system, and not every name on each
        return None
    return size if size > 0 else None


def _options(plan: CapacityPlan) -> str:
    return "--max-batch or --max-dec" if plan.max_enc is None else "--max-batch, --max-enc or --max-dec"
