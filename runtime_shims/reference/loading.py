"""From a bundle to something that runs: the only place that picks a backend's program class."""

from __future__ import annotations

from runtime_shims.contract.bundle_reader import Bundle
from runtime_shims.contract.errors import UnsupportedSetting
from runtime_shims.contract.manifest import ProgramEntry
from runtime_shims.reference.program import Program
from runtime_shims.reference.session import Session


def load_program(bundle: Bundle, entry: ProgramEntry) -> Program:
    """Load one program of the bundle. The backend's package is imported here and not before."""
    if entry.format == "executorch":
        from runtime_shims.reference.executorch_program import ExecutorchProgram

        return ExecutorchProgram(bundle, entry)
    raise UnsupportedSetting(f"{entry.file}: {entry.format} programs cannot be run by the Python runtime yet")


def open_session(bundle: Bundle, backend: str | None = None) -> Session:
    """A session over the bundle's program for `backend`, or over its first one."""
    return Session(bundle, load_program(bundle, bundle.program(backend)))
