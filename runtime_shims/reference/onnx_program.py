"""A program run by ONNX Runtime: one session for each method over one set of caches.

The caches are this program's memory. The first b rows of each are bound as a call's input and as its output, so that
`TensorScatter` writes in place and a call costs what its batch does. Logits have memory of their own too: a step
allocates nothing but what the runtime's arena holds.

Shape legend: B most rows, b rows of a call, K key/value heads, S slots, D key or value size, R logit rows,
V vocabulary.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from runtime_shims.contract.bundle_reader import REPAIR, Bundle
from runtime_shims.contract.cache_types import tail_elements
from runtime_shims.contract.errors import (
    BundleCorrupt,
    FixedCapacityError,
    ManifestInvalid,
    UnsupportedSetting,
    UserInputError,
)
from runtime_shims.contract.manifest import EDITED, MANIFEST_NAME, CacheEntry, Manifest, MethodEntry, ProgramEntry
from runtime_shims.contract.onnx_names import (
    RUNTIME,
    method_path,
    past_names,
    present_names,
    read_caches,
    written_caches,
)
from runtime_shims.reference.native_stderr import captured_native_stderr
from runtime_shims.reference.onnx_check import StatedTensor, method_faults, planned_faults
from runtime_shims.reference.program import StepInputs

_SILENT = 4
"""The runtime's level of messages that says fatal ones only: its errors are exceptions."""
_CODE = re.compile(r"\[ONNXRuntimeError\] : \d+ : \w+ : ")
_TOO_NEW = re.compile(r"Opset \d+ is under development|Unsupported model IR version.*|Could not find an impl.*")
"""What the runtime says of a graph in operators, or a format, that it does not know."""


class OnnxProgram:
    """The methods of an ONNX program, and the caches that they share."""

    def __init__(self, bundle: Bundle, entry: ProgramEntry, threads: int | None = None) -> None:
        """Load every method with `threads` threads, one per core when None.

        Raises BundleCorrupt when the runtime refuses a file, UnsupportedSetting when it is not installed or too old,
        and ManifestInvalid when the manifest describes another program.
        """
        self.threads = checked_threads(threads)
        self._limits = bundle.manifest.limits
        self._caches = _allocate(bundle.manifest)
        limits, words = self._limits, bundle.manifest.tokens.vocab_size
        self._logits = torch.zeros(limits.max_batch * limits.max_logit_rows * words)
        self._words = words
        runtime = load_runtime()
        self._methods: dict[str, _Method] = {}
        faults = planned_faults(bundle.manifest, entry)
        for method in entry.methods:
            path = bundle.file(method_path(entry.file, method.name))
            session = _load(runtime, path, self.threads)
            faults += _faults(bundle.manifest, entry, method, session)
            self._methods[method.name] = _Method(path, session, method, bundle.manifest.caches, self._caches)
        if faults:
            raise ManifestInvalid(str(bundle.root / MANIFEST_NAME), faults, EDITED)

    def features(self, waveform: Tensor) -> Tensor:
        """Run the front end; see Program.features."""
        method = self._method("features")
        sizes = [dim.maximum for dim in method.entry.outputs[0].dims[1:]]
        features = torch.empty(len(waveform), *sizes)
        method.run((waveform,), features)
        return features

    def encode(self, source: Tensor, enc_lengths: Tensor) -> None:
        """Fill the cross caches; see Program.encode."""
        self._method("encode").run((source, enc_lengths), torch.empty_like(enc_lengths))

    def decode(self, inputs: StepInputs) -> Tensor:
        """Run one step; see Program.decode. The logits are this program's memory."""
        inputs.check_limits(self._limits)
        shape = (*inputs.logit_rows.shape, self._words)
        logits_bRV = self._logits[: prod(shape)].view(shape)
        self._method("decode").run(inputs.as_tuple(), logits_bRV)
        return logits_bRV

    def reset(self) -> None:
        """Empty the caches; the sessions hold no state."""
        for cache in self._caches.values():
            cache.zero_()

    def _method(self, name: str) -> _Method:
        if name not in self._methods:
            raise UserInputError(f"this program has no method {name}: {', '.join(self._methods)}")
        return self._methods[name]


class _Method:
    """One graph, and its caches bound as often as there are batches."""

    def __init__(
        self,
        path: Path,
        session: Any,
        entry: MethodEntry,
        caches: Sequence[CacheEntry],
        memory: dict[str, Tensor],
    ) -> None:
        self.path, self.session, self.entry = path, session, entry
        taken, written = read_caches(entry.name, caches), written_caches(entry.name, caches)
        self._taken = list(zip(past_names(taken), _of(taken, memory), strict=True))
        self._written = list(zip(present_names(written), _of(written, memory), strict=True))
        self._bindings: dict[int, Any] = {}

    def run(self, inputs: Sequence[Tensor], output: Tensor) -> None:
        """Run the method; its result is written to `output`, which is contiguous."""
        inputs = [tensor.contiguous() for tensor in inputs]
        binding = self._binding(len(inputs[0]))
        for tensor_entry, tensor in zip(self.entry.inputs, inputs, strict=True):
            bind(binding.bind_input, tensor_entry.name, tensor)
        bind(binding.bind_output, self.entry.outputs[0].name, output)
        try:
            self.session.run_with_iobinding(binding)
        except Exception as error:  # the runtime's errors have no base class of their own
            shapes = ", ".join(str(tuple(tensor.shape)) for tensor in inputs)
            raise FixedCapacityError(
                f"{self.path.name}: {self.entry.name} failed on inputs of shape {shapes}: {one_line(error)}"
            ) from error

    def _binding(self, rows: int) -> Any:
        """The binding of the first `rows` rows of every cache, made at their first use."""
        if rows not in self._bindings:
            binding = self.session.io_binding()
            for name, cache in self._taken:
                bind(binding.bind_input, name, cache[:rows])
            for name, cache in self._written:
                bind(binding.bind_output, name, cache[:rows])
            self._bindings[rows] = binding
        return self._bindings[rows]


def bind(method: Any, name: str, tensor: Tensor) -> None:
    """Bind a contiguous tensor's memory as the input or output `name`."""
    method(name, "cpu", 0, _element_type(tensor), tuple(tensor.shape), tensor.data_ptr())


def _element_type(tensor: Tensor) -> Any:
    return np.dtype(str(tensor.dtype).removeprefix("torch.")).type


def _allocate(manifest: Manifest) -> dict[str, Tensor]:
    """Every cache `[B, K, S, D]` by the name of its input, zeros."""
    memory = {}
    for entry in manifest.caches:
        for name, size in zip(past_names([entry]), (entry.key_dim, entry.value_dim), strict=True):
            shape = (manifest.limits.max_batch, entry.kv_heads, entry.slots, size + tail_elements(entry.dtype))
            memory[name] = torch.zeros(shape, dtype=getattr(torch, entry.dtype))
    return memory


def _of(entries: Sequence[CacheEntry], memory: dict[str, Tensor]) -> list[Tensor]:
    return [memory[name] for name in past_names(entries)]


def load_runtime() -> Any:
    """The module `onnxruntime`, silenced. Raises UnsupportedSetting when it is not installed."""
    try:
        with captured_native_stderr():
            import onnxruntime
    except ImportError as error:
        raise UnsupportedSetting(
            f"onnxruntime is not installed ({error}), so ONNX programs cannot run; install fixed-capacity[onnx]"
        ) from None
    onnxruntime.set_default_logger_severity(_SILENT)
    return onnxruntime


def _load(runtime: Any, path: Path, threads: int) -> Any:
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = _SILENT
    try:
        return runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the runtime's errors have no base class of their own
        cause = one_line(error)
        too_new = _TOO_NEW.search(cause)
        if too_new is not None:
            raise UnsupportedSetting(
                f"{path.name} needs more than onnxruntime {runtime.__version__} knows ({too_new[0]}); "
                f"install onnxruntime {RUNTIME} or later"
            ) from None
        raise BundleCorrupt(path.name, [f"ONNX Runtime cannot load it ({cause})"], REPAIR) from None


def _faults(manifest: Manifest, entry: ProgramEntry, method: MethodEntry, session: Any) -> list[str]:
    inputs, outputs = map(_stated, (session.get_inputs(), session.get_outputs()))
    place = f"programs[{manifest.programs.index(entry)}]"
    return method_faults(place, method, manifest, (inputs, outputs))


def _stated(arguments: Any) -> tuple[StatedTensor, ...]:
    """Inputs or outputs of a session; a dynamic size is a name."""
    return tuple(StatedTensor(argument.name, argument.type, tuple(argument.shape)) for argument in arguments)


def one_line(error: Exception) -> str:
    """What the runtime says, without its error code and line breaks."""
    return _CODE.sub("", " ".join(str(error).split()))


def checked_threads(count: int | None) -> int:
    """Threads of a session; one per core of this process when None. Raises UserInputError for a count below 1."""
    if count is None:
        cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
        return len(cores)
    if count < 1:
        raise UserInputError(f"--threads must be at least 1, got {count}")
    return count
