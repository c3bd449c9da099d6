"""Runs an exported bundle: the contract, the Python reference runtime and the C++ runtime."""

from __future__ import annotations
