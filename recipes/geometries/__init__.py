"""Published model geometries: the values of `config.json` that decide shapes and arithmetic, as plain dicts.

One function returns one model's config. With `--random-weights` they stand in for a download.
"""

from __future__ import annotations
