"""What the types of the manifest cannot say: its parts must agree with each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runtime_shims.contract.manifest import Manifest


def rule_faults(manifest: Manifest) -> list[str]:
    """Every contradiction in a manifest whose types are right."""
    return []
