"""The limits that every graph of an ONNX program states about itself, in its metadata.

A graph's sizes are dynamic, so nothing else in it says how far they go, or how much of a ring is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runtime_shims.contract.manifest import CacheEntry, Limits, Manifest

PREFIX = "fixed_capacity."
"""What the keys begin with."""


def stated_limits(limits: Limits, vocab_size: int, caches: Iterable[CacheEntry]) -> dict[str, str]:
    """Key -> value, for everything that holds for all graphs of a program; what there is no limit of is left out."""
    values: dict[str, object] = {
        "max_batch": limits.max_batch,
        "max_enc": limits.max_enc,
        "max_dec": limits.max_dec,
        "max_step": limits.max_step,
        "max_logit_rows": limits.max_logit_rows,
        "vocab_size": vocab_size,
        "reach": ",".join(str(entry.reach) for entry in caches),
    }
    return {f"{PREFIX}{name}": str(value) for name, value in values.items() if value is not None}


def limit_faults(path: str, manifest: Manifest, stated: Mapping[str, str]) -> list[str]:
    """Every difference between the manifest and the metadata of a graph."""
    wanted = stated_limits(manifest.limits, manifest.tokens.vocab_size, manifest.caches)
    return [
        f"{path}, {name.removeprefix(PREFIX)}: {value} here, {stated.get(name, 'nothing')} in the program"
        for name, value in wanted.items()
        if stated.get(name) != value
    ]
