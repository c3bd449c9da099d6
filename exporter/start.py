"""Where `export-model` begins: nothing but Python itself is imported before an interrupt is one line."""

from __future__ import annotations

from runtime_shims.start import guarded


def export_model() -> int:
    """Console entry point; returns the exit code."""
    return guarded("export-model", _export_model)


def _export_model() -> int:
    from exporter.cli import main

    return main()
