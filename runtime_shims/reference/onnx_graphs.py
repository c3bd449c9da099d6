"""ONNX's own checker over the graphs of a program, with the inference of every shape.

The exporter asks it of every graph it writes, and `run-model verify` of every graph it is given.
"""

from __future__ import annotations

from pathlib import Path

from runtime_shims.contract.bundle_reader import Bundle
from runtime_shims.contract.manifest import ProgramEntry
from runtime_shims.contract.onnx_names import method_path


def graph_fault(path: Path) -> str | None:
    """What the checker says of a graph file, in one line; None when it has nothing to say."""
    import onnx

    try:
        onnx.checker.check_model(str(path), full_check=True)
    except Exception as error:  # the checker and shape inference raise types of their own
        return " ".join(str(error).split())
    return None


def program_graphs(bundle: Bundle, entry: ProgramEntry) -> list[Path]:
    """The graph of every method of an ONNX program."""
    return [bundle.file(method_path(entry.file, method.name)) for method in entry.methods]
