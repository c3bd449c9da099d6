"""From a bundle to something that runs: the only place that picks a backend's program class."""

from __future__ import annotations

from runtime_shims.contract.bundle_reader import Bundle
from runtime_shims.contract.errors import UnsupportedSetting
from runtime_shims.contract.formatting import format_bytes
from runtime_shims.contract.manifest import ProgramEntry
from runtime_shims.contract.out_of_memory import memory_for
from runtime_shims.reference.program import Program
from runtime_shims.reference.session import Session


def load_program(bundle: Bundle, entry: ProgramEntry) -> Program:
    """Load one program of the bundle. The backend's package is imported here and not before."""
    if entry.format == "executorch":
        from runtime_shims.reference.executorch_program import ExecutorchProgram

        return ExecutorchProgram(bundle, entry)
    raise UnsupportedSetting(f"{entry.file}: {entry.format} programs cannot be run by the Python runtime yet")


def open_session(bundle: Bundle, backend: str | None = None) -> Session:
    """A session over the bundle's program for `backend`, or over its first one.

    Raises OutOfMemory when this machine cannot give what the program plans.
    """
    entry = bundle.program(backend)
    planned = f"{bundle.root}: {entry.file} plans {format_bytes(entry.planned_bytes)} at run time"
    with memory_for(planned, "export it with a smaller --max-batch or --max-dec"):
        return Session(bundle, load_program(bundle, entry))
