"""Caches of a fixed capacity for transformers' own `generate`: no export, no program."""
