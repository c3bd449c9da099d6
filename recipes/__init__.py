"""Named recipes: values only."""

from __future__ import annotations
