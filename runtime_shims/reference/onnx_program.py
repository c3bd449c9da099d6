"""A program run by ONNX Runtime: one session for each method over one set of caches.

The caches are this program's memory. The first b rows of each are bound as a call's input and as its output, so that
`TensorScatter` writes in place and a call costs what its batch does. Logits have memory of their own too: a step
allocates nothing but what the runtime's arena holds.

Shape legend: B most rows, b rows of a call, K key/value heads, S slots, D key or value size, R logit rows,
V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from runtime_shims.contract.bundle_reader import Bundle
from runtime_shims.contract.cache_types import tail_elements
from runtime_shims.contract.errors import FixedCapacityError, ManifestInvalid, UserInputError
from runtime_shims.contract.manifest import (
    EDITED,
    MANIFEST_NAME,
    Manifest,
    MethodEntry,
    ProgramEntry,
    TensorEntry,
)
from runtime_shims.contract.onnx_limits import limit_faults
from runtime_shims.contract.onnx_names import method_path, past_names, present_names, read_caches, written_caches
from runtime_shims.reference.onnx_check import StatedTensor, method_faults, planned_faults
from runtime_shims.reference.onnx_sessions import checked_threads, load_session, one_line
from runtime_shims.reference.program import DraftInputs, StepInputs


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
        assistant = bundle.manifest.assistant
        self._width = 0 if assistant is None else assistant.hidden_size
        self._states = torch.zeros(limits.max_batch * limits.max_logit_rows * self._width)
        self._decoded = (0, 0)
        self._methods: dict[str, _Method] = {}
        faults = planned_faults(bundle.manifest, entry)
        for method in entry.methods:
            path = bundle.file(method_path(entry.file, method.name))
            session = load_session(path, self.threads)
            faults += _faults(bundle.manifest, entry, method, session)
            self._methods[method.name] = _Method(path, session, method, bundle.manifest, self._caches)
        if faults:
            raise ManifestInvalid(str(bundle.root / MANIFEST_NAME), faults, EDITED)

    def features(self, waveform: Tensor) -> Tensor:
        """Run the front end; see Program.features."""
        method = self._method("features")
        sizes = [dim.maximum for dim in method.entry.outputs[0].dims[1:]]
        features = torch.empty(len(waveform), *sizes)
        method.run((waveform,), features)
        return features

    def encode(self, source: Tensor, lengths: Tensor) -> None:
        """Fill the cross caches; see Program.encode."""
        encode = self._method("encode")
        written = torch.empty_like(lengths, dtype=_type(encode.entry.outputs[0]))
        encode.run((source, lengths), written)

    def decode(self, inputs: StepInputs) -> Tensor:
        """Run one step; see Program.decode. The logits are this program's memory."""
        inputs.check_limits(self._limits)
        shape = (*inputs.logit_rows.shape, self._words)
        logits_bRV = self._logits[: prod(shape)].view(shape)
        self._decoded = (shape[0], shape[1])
        outputs = (logits_bRV, self.hidden()) if self._width else (logits_bRV,)
        self._method("decode").run(inputs.as_tuple(), *outputs)
        return logits_bRV

    def hidden(self) -> Tensor:
        """See Program.hidden; this program's memory."""
        rows, logit_rows = self._decoded
        return self._states[: rows * logit_rows * self._width].view(rows, logit_rows, self._width)

    def draft(self, inputs: DraftInputs) -> tuple[Tensor, Tensor]:
        """Run the assistant; see Program.draft."""
        rows = len(inputs.tokens)
        logits_b1V, hidden_bC = torch.empty(rows, 1, self._words), torch.empty(rows, self._width)
        self._method("draft").run(inputs.as_tuple(), logits_b1V, hidden_bC)
        return logits_b1V, hidden_bC

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
        self, path: Path, session: Any, entry: MethodEntry, manifest: Manifest, memory: dict[str, Tensor]
    ) -> None:
        self.path, self.session, self.entry = path, session, entry
        kind, caches = manifest.kind, manifest.caches
        written = written_caches(entry.name, caches)
        self._taken = [(name, memory[name]) for name in past_names(read_caches(entry.name, caches), kind)]
        places = zip(present_names(written, kind), past_names(written, kind), strict=True)
        self._written = [(name, memory[place]) for name, place in places]
        self._bindings: dict[int, Any] = {}

    def run(self, inputs: Sequence[Tensor], *outputs: Tensor) -> None:
        """Run the method; its results are written to `outputs`, which are contiguous."""
        inputs = [tensor.to(_type(entry)).contiguous() for entry, tensor in zip(self.entry.inputs, inputs, strict=True)]
        binding = self._binding(len(inputs[0]))
        for tensor_entry, tensor in zip(self.entry.inputs, inputs, strict=True):
            bind(binding.bind_input, tensor_entry.name, tensor)
        for tensor_entry, tensor in zip(self.entry.outputs, outputs, strict=True):
            bind(binding.bind_output, tensor_entry.name, tensor)
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


def _type(entry: TensorEntry) -> torch.dtype:
    """The type in which a program takes or gives a tensor; a session has integers in int64."""
    return getattr(torch, entry.dtype)


def bind(method: Any, name: str, tensor: Tensor) -> None:
    """Bind a contiguous tensor's memory as the input or output `name`."""
    method(name, "cpu", 0, _element_type(tensor), tuple(tensor.shape), tensor.data_ptr())


def _element_type(tensor: Tensor) -> Any:
    return np.dtype(str(tensor.dtype).removeprefix("torch.")).type


def _allocate(manifest: Manifest) -> dict[str, Tensor]:
    """Every cache `[B, K, S, D]` by the name of its input, zeros."""
    memory = {}
    for entry in manifest.caches:
        for name, size in zip(past_names([entry], manifest.kind), (entry.key_dim, entry.value_dim), strict=True):
            shape = (manifest.limits.max_batch, entry.kv_heads, entry.slots, size + tail_elements(entry.dtype))
            memory[name] = torch.zeros(shape, dtype=getattr(torch, entry.dtype))
    return memory


def _faults(manifest: Manifest, entry: ProgramEntry, method: MethodEntry, session: Any) -> list[str]:
    inputs, outputs = map(_stated, (session.get_inputs(), session.get_outputs()))
    place = f"programs[{manifest.programs.index(entry)}]"
    stated = session.get_modelmeta().custom_metadata_map
    return method_faults(place, method, manifest, (inputs, outputs)) + limit_faults(
        f"{place}, {method.name}", manifest, stated
    )


def _stated(arguments: Any) -> tuple[StatedTensor, ...]:
    """Inputs or outputs of a session; a dynamic size is a name."""
    return tuple(StatedTensor(argument.name, argument.type, tuple(argument.shape)) for argument in arguments)
