"""What `--draft` may name, and the recipe of the bundle that drafts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from exporter.spec.weight_format import LINEAR_BITS
from runtime_shims.contract.manifest_rules import SELF_INT4

if TYPE_CHECKING:
    from exporter.spec.recipe import Recipe
    from runtime_shims.contract.manifest import ResolvedRecipe

DRAFT_SCHEME = "8da4w"
DRAFT_EMBEDDING_BITS = 4
"""A head of 4 bits agrees a little less often and is cheaper by more (docs/decisions/0015)."""
MTP = "mtp"
"""The assistant that was published with a model."""
_ELSEWHERE = {
    "prompt-lookup": "needs nothing in the bundle; leave it out, and run with --speculate prompt-lookup",
}


def draft_faults(draft: str | None, quantize: str, max_draft: int | None) -> list[str]:
    """Why `--draft` cannot be had, whatever the model."""
    if draft is None:
        return []
    if draft in _ELSEWHERE:
        return [f"--draft {draft} {_ELSEWHERE[draft]}"]
    if draft.lower().startswith("self") and draft != SELF_INT4:
        return [f"--draft {draft} is not available; use {SELF_INT4}, or the name of a model"]
    if not draft.strip():
        return [f"--draft is empty; use {SELF_INT4}, or the name of a model"]
    faults = []
    if max_draft == 0:
        faults.append(f"--draft {draft} drafts nothing with --max-draft 0; raise it or leave --draft out")
    if draft == SELF_INT4 and LINEAR_BITS.get(quantize) == LINEAR_BITS[DRAFT_SCHEME]:
        fault = f"--draft {draft} of a model in 4 bits is the model itself; leave it out, or --quantize another scheme"
        faults.append(fault)
    return faults


def assistant_name(model: str) -> str:
    """What the assistant of `model` is called: beside it on disk, as on the Hub."""
    return model.rstrip("/") + "-assistant"


def draft_recipe(recipe: Recipe, draft: str, target: ResolvedRecipe) -> Recipe:
    """The recipe of the bundle that drafts for `target`: its limits, its programs, another or a smaller model.

    Raises:
        RecipeError: the target's programs cannot be had in 4 bits.
    """
    same = replace(
        recipe,
        max_enc=target.max_enc,
        max_dec=target.max_dec,
        max_draft=target.max_draft,
        prefill_chunk=target.prefill_chunk,
        draft=None,
    )
    if draft == SELF_INT4:
        bits = DRAFT_EMBEDDING_BITS if recipe.attention == "fused" or "onnx" in recipe.backends else None
        return replace(same, quantize=DRAFT_SCHEME, embedding_bits=bits, group_size=None)
    return replace(same, model=draft)
