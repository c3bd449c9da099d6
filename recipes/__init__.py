"""Named recipes: values only. One function returns one complete `Recipe`; nothing here computes anything."""

from __future__ import annotations
