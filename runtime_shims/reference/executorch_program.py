"""A program run by ExecuTorch's Python bindings.

The bindings' extension module is imported directly: `executorch.runtime` wraps the same functions but
imports the exporter's packages on the way, which takes seconds and prints warnings.

Threads: the runtime has its own pool. PyTorch's pool fights it for the cores, so a process that
mostly runs programs calls `torch.set_num_threads(1)` once (the command line does).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from runtime_shims.contract.bundle_reader import Bundle
from runtime_shims.contract.errors import BundleCorrupt, FixedCapacityError, ManifestInvalid, UserInputError
from runtime_shims.contract.manifest import EDITED, MANIFEST_NAME, ProgramEntry
from runtime_shims.native import load_operator_library, operator_library_path, share_packed_weights
from runtime_shims.reference.native_stderr import captured_native_stderr
from runtime_shims.reference.program import DraftInputs, StepInputs
from runtime_shims.reference.program_check import StatedMethod, StatedTensor, program_faults
from runtime_shims.reference.program_file import read_method_memory, require_identifier, type_name


class ExecutorchProgram:
    """One `.pte` file, all its methods loaded once over one set of memory arenas.

    Sharing of the arenas is a property of loading a *program* and its methods from it. Loading the
    file once per method instead would give `decode` its own, empty cross caches without an error.
    """

    def __init__(self, bundle: Bundle, entry: ProgramEntry) -> None:
        """Load `entry`'s file and methods.

        Raises BundleCorrupt when the runtime refuses the file, ManifestInvalid when the manifest describes
        another program, and FixedCapacityError when there is not enough memory.
        """
        self._path: Path = bundle.file(entry.file)
        self._entry = entry
        self._limits = bundle.manifest.limits
        self._method_names = tuple(method.name for method in entry.methods)
        self._program: Any = None
        self._methods: dict[str, Any] = {}
        self._states: list[Tensor] = []
        _prepare_runtime(entry, quantized=bundle.manifest.quantization != "none")
        self._load()
        stated = [_stated(method.method_meta()) for method in self._methods.values()]
        faults = program_faults(bundle.manifest, entry, stated, read_method_memory(self._path))
        if faults:
            raise ManifestInvalid(str(bundle.root / MANIFEST_NAME), faults, EDITED)

    def features(self, waveform: Tensor) -> Tensor:
        """Run the front end; see Program.features. A copy: `encode` works in the memory that holds the result."""
        return self._call("features", (waveform,))[0].clone()

    def encode(self, source: Tensor, lengths: Tensor) -> None:
        """Fill the cross caches; see Program.encode."""
        self._call("encode", (source, lengths))

    def decode(self, inputs: StepInputs) -> Tensor:
        """Run one step; see Program.decode. The logits alias the runtime's output buffer."""
        inputs.check_limits(self._limits)
        outputs = self._call("decode", inputs.as_tuple())
        logits_BRV, self._states = outputs[0], outputs[1:]
        expected = (inputs.rows, inputs.logit_rows.shape[1])
        if logits_BRV.dtype != torch.float32 or tuple(logits_BRV.shape[:2]) != expected:
            raise FixedCapacityError(
                f"{self._path.name}: decode returned {logits_BRV.dtype} {tuple(logits_BRV.shape)}, "
                f"expected float32 {expected} rows of logits; export the bundle again"
            )
        return logits_BRV

    def hidden(self) -> Tensor:
        """See Program.hidden; memory of the runtime's."""
        if not self._states:
            raise UserInputError(f"{self._path.name} has no assistant, or has run no step")
        return self._states[0]

    def draft(self, inputs: DraftInputs) -> tuple[Tensor, Tensor]:
        """Run the assistant; see Program.draft. The results alias the runtime's output buffers."""
        logits_B1V, hidden_BC = self._call("draft", inputs.as_tuple())
        return logits_B1V, hidden_BC

    def reset(self) -> None:
        """Load the program anew: fresh arenas, whatever state a failed step left."""
        self._methods = {}
        self._program = None
        self._load()

    def _load(self) -> None:
        require_identifier(self._path)
        with captured_native_stderr() as native_log:
            failure = self._try_load()
        if failure is not None:
            cause = native_log[-1] if native_log else failure
            raise BundleCorrupt(
                self._path.name,
                [f"ExecuTorch cannot load it ({cause})"],
                "export the bundle again, or run it with the executorch version it was made for",
            )

    def _try_load(self) -> str | None:
        """Load program and methods; return the runtime's message when it refuses."""
        from executorch.extension.pybindings import _C

        try:
            self._program = _C._load_program(
                str(self._path), program_verification=_C.Verification.InternalConsistency
            )
            self._methods = {name: self._program.load_method(name) for name in self._method_names}
        except RuntimeError as error:
            return str(error)
        return None

    def _call(self, name: str, inputs: tuple[Tensor, ...]) -> list[Tensor]:
        if name not in self._methods:
            raise UserInputError(f"{self._path.name} has no method {name}: {', '.join(self._method_names)}")
        try:
            return self._methods[name].call(inputs, clone_outputs=False)
        except RuntimeError as error:
            shapes = ", ".join(str(tuple(tensor.shape)) for tensor in inputs)
            raise FixedCapacityError(
                f"{self._path.name}: {name} failed on inputs of shape {shapes}: {error}"
            ) from error


def _stated(meta: Any) -> StatedMethod:
    """What the runtime read of a method's inputs and outputs."""
    inputs = [meta.input_tensor_meta(index) for index in range(meta.num_inputs())]
    outputs = [meta.output_tensor_meta(index) for index in range(meta.num_outputs())]
    return StatedMethod(meta.name(), tuple(map(_stated_tensor, inputs)), tuple(map(_stated_tensor, outputs)))


def _stated_tensor(meta: Any) -> StatedTensor:
    return StatedTensor(type_name(meta.dtype()), tuple(meta.sizes()))


def _prepare_runtime(entry: ProgramEntry, *, quantized: bool) -> None:
    """Register the operators that the program uses, and pack XNNPACK's weights once for all methods.

    Without the operator library, portable programs run all the same: each method packs its own copy. The
    thread pool is made here, because the first step would print the processor's probing on standard error.
    """
    from executorch.extension.pybindings import _C

    with captured_native_stderr():
        _C._threadpool_get_thread_count()
        if entry.operator_library_required:
            load_operator_library()
        elif quantized:
            import executorch.kernels.quantized  # noqa: F401 - registers lookups in quantized embeddings
        if entry.backend == "xnnpack" and operator_library_path() is not None:
            share_packed_weights()


def set_runtime_threads(count: int) -> None:
    """Size ExecuTorch's thread pool. Call it before a program is loaded: XNNPACK keeps the pool.

    Raises UserInputError for a count below 1.
    """
    if count < 1:
        raise UserInputError(f"--threads must be at least 1, got {count}")
    from executorch.extension.pybindings import _C

    with captured_native_stderr():
        _C._unsafe_reset_threadpool(count)


def runtime_threads() -> int:
    """Threads of ExecuTorch's pool."""
    from executorch.extension.pybindings import _C

    with captured_native_stderr():
        return int(_C._threadpool_get_thread_count())
