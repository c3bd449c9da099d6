"""Makes a bundle from a Hugging Face model."""

from __future__ import annotations
