"""Holds a manifest against what the graphs of its ONNX program state about themselves.

As `program_check.py` does for ExecuTorch: a manifest can be edited so that all of its parts agree, and memory sized by
it would then be read and written past its end.

Shape legend: B batch rows, K key/value heads, S slots, D key or value size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runtime_shims.contract.cache_types import tail_elements
from runtime_shims.contract.manifest import CacheEntry, Manifest, MethodEntry, ProgramEntry
from runtime_shims.contract.onnx_names import past_names, present_names, read_caches, written_caches

_TYPES = {
    "float32": "tensor(float)",
    "float16": "tensor(float16)",
    "int8": "tensor(int8)",
    "int64": "tensor(int64)",
    "int32": "tensor(int32)",
}
Sizes = tuple[int | str, ...]


@dataclass(frozen=True)
class StatedTensor:
    """An input or output of a graph: its name, the runtime's name of its type, and sizes; dynamic ones are names."""

    name: str
    type: str
    sizes: Sizes


def method_faults(
    path: str,
    method: MethodEntry,
    manifest: Manifest,
    stated: tuple[Sequence[StatedTensor], Sequence[StatedTensor]],
) -> list[str]:
    """Every difference between the manifest and the inputs and outputs that a graph states."""
    taken, written = read_caches(method.name, manifest.caches), written_caches(method.name, manifest.caches)
    rows = method.inputs[0].dims[0]
    row_size = rows.maximum if rows.name is None else rows.name
    wanted = (
        [*_listed(method.inputs), *_caches(past_names(taken, manifest.kind), taken, row_size)],
        [*_listed(method.outputs), *_caches(present_names(written, manifest.kind), written, row_size)],
    )
    faults = []
    for kind, tensors, found in zip(("inputs", "outputs"), wanted, stated, strict=True):
        place = f"{path}, {method.name}, {kind}"
        if len(tensors) != len(found):
            faults.append(f"{place}: {len(tensors)} are listed, the program has {len(found)}")
            continue
        faults += [
            f"{place}: {_shown(tensor)} here, {_shown(actual)} in the program"
            for tensor, actual in zip(tensors, found, strict=True)
            if tensor != actual
        ]
    return faults


def planned_faults(manifest: Manifest, entry: ProgramEntry) -> list[str]:
    """What is planned for an ONNX program are the caches and the logits."""
    limits = manifest.limits
    logits = limits.max_batch * limits.max_logit_rows * manifest.tokens.vocab_size * 4
    planned = manifest.memory.cache_bytes + logits
    if planned == entry.planned_bytes:
        return []
    path = f"programs[{manifest.programs.index(entry)}].planned_bytes"
    return [f"{path}: {entry.planned_bytes} here, caches and logits take {planned}"]


def _listed(tensors) -> list[StatedTensor]:
    return [
        StatedTensor(
            tensor.name,
            _TYPES.get(tensor.dtype, tensor.dtype),
            tuple(dim.maximum if dim.name is None else dim.name for dim in tensor.dims),
        )
        for tensor in tensors
    ]


def _caches(names: Sequence[str], entries: Sequence[CacheEntry], rows: int | str) -> list[StatedTensor]:
    """Keys and values as `[b, K, S, D]`."""
    sizes = [size for entry in entries for size in _sizes(entry, rows)]
    types = [_TYPES.get(entry.dtype, entry.dtype) for entry in entries for _ in range(2)]
    return [StatedTensor(*stated) for stated in zip(names, types, sizes, strict=True)]


def _sizes(entry: CacheEntry, rows: int | str) -> tuple[Sizes, Sizes]:
    tail = tail_elements(entry.dtype)
    lead = (rows, entry.kv_heads, entry.slots)
    return (*lead, entry.key_dim + tail), (*lead, entry.value_dim + tail)


def _shown(tensor: StatedTensor) -> str:
    return f"{tensor.name} {tensor.type}[{', '.join(map(str, tensor.sizes))}]"
