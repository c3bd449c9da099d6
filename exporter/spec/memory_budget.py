"""Whether the memory that a plan needs is there: what the user allows, and what this machine has."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from exporter.spec.faults import PlanError
from runtime_shims.contract.formatting import format_bytes

if TYPE_CHECKING:
    from exporter.spec.capacity_plan import CapacityPlan


def require_budget(plan: CapacityPlan, max_memory_bytes: int | None) -> None:
    """Raise PlanError when the plan's total exceeds `max_memory_bytes`; None allows any."""
    if max_memory_bytes is None or plan.total_bytes <= max_memory_bytes:
        return
    advice = f"lower {_options(plan)}, or raise --max-memory"
    if plan.weights_bytes >= max_memory_bytes:
        advice = "raise --max-memory or choose a smaller model"
    fault = f"{needed(plan)}, more than --max-memory {format_bytes(max_memory_bytes)}; {advice}"
    raise PlanError(plan.recipe.model, [fault])


def require_machine(plan: CapacityPlan, machine_bytes: int | None) -> None:
    """Raise PlanError when the plan's total exceeds the memory of this machine; None is not known."""
    if machine_bytes is None or plan.total_bytes <= machine_bytes:
        return
    advice = "give --max-memory to export it for a larger machine"
    if plan.weights_bytes < machine_bytes:
        advice = f"lower {_options(plan)}, or {advice}"
    fault = f"{needed(plan)}, more than the {format_bytes(machine_bytes)} of this machine; {advice}"
    raise PlanError(plan.recipe.model, [fault])


def require_planned(plan: CapacityPlan, planned_bytes: int, max_memory_bytes: int | None) -> None:
    """Raise PlanError when weights and planned memory, activations included, exceed `max_memory_bytes`.

    Activations are known only once a program is lowered, so this is the second look, before a bundle is finished.
    """
    total = plan.weights_bytes + planned_bytes
    if max_memory_bytes is None or total <= max_memory_bytes:
        return
    fault = f"the program takes {format_bytes(total)} (weights {format_bytes(plan.weights_bytes)}, caches, logits and "
    fault += f"activations {format_bytes(planned_bytes)}), more than --max-memory {format_bytes(max_memory_bytes)}"
    raise PlanError(plan.recipe.model, [f"{fault}; lower {_options(plan)} or --prefill-chunk, or raise --max-memory"])


def needed(plan: CapacityPlan) -> str:
    """The plan's total and its parts, as the beginning of a message."""
    return (
        f"it needs {format_bytes(plan.total_bytes)} (weights {format_bytes(plan.weights_bytes)}, caches "
        f"{format_bytes(plan.cache_bytes)}, logits {format_bytes(plan.logits_bytes)})"
    )


def machine_memory_bytes() -> int | None:
    """Physical memory of this machine; None where the system does not say."""
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on every system, and not every name on each
        return None
    return size if size > 0 else None


def _options(plan: CapacityPlan) -> str:
    return "--max-batch or --max-dec" if plan.max_enc is None else "--max-batch, --max-enc or --max-dec"
