"""From a bundle to something that runs: the only place that picks a backend's program class."""

from __future__ import annotations

from runtime_shims.contract.bundle_reader import Bundle
from runtime_shims.contract.formatting import format_bytes
from runtime_shims.contract.manifest import ProgramEntry
from runtime_shims.contract.out_of_memory import memory_for
from runtime_shims.reference.program import Program
from runtime_shims.reference.session import Session


def load_program(bundle: Bundle, entry: ProgramEntry, threads: int | None = None) -> Program:
    """Load one program of the bundle. The backend's package is imported here and not before.

    `threads` is for the runtime, one per core when None. ExecuTorch has one pool for all programs of a process: its
    size stays as it is when None.
    """
    if entry.format == "onnx":
        from runtime_shims.reference.onnx_program import OnnxProgram

        return OnnxProgram(bundle, entry, threads)
    from runtime_shims.reference import executorch_program

    if threads is not None and threads != executorch_program.runtime_threads():
        executorch_program.set_runtime_threads(threads)
    return executorch_program.ExecutorchProgram(bundle, entry)


def runtime_threads(entry: ProgramEntry, asked: int | None) -> int:
    """How many threads a program loaded with `asked` threads runs on."""
    if entry.format == "onnx":
        from runtime_shims.reference.onnx_sessions import checked_threads

        return checked_threads(asked)
    from runtime_shims.reference import executorch_program

    return executorch_program.runtime_threads()


def open_session(bundle: Bundle, backend: str | None = None, threads: int | None = None) -> Session:
    """A session over the bundle's program for `backend`, or over its first one; `threads` as in `load_program`.

    Raises OutOfMemory when this machine cannot give what the program plans.
    """
    entry = bundle.program(backend)
    planned = f"{bundle.root}: {entry.file} plans {format_bytes(entry.planned_bytes)} at run time"
    with memory_for(planned, "export it with a smaller --max-batch or --max-dec"):
        return Session(bundle, load_program(bundle, entry, threads))
