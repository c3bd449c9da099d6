"""Holds a manifest against what its program file states about itself.

A manifest can be edited so that all of its parts agree. A session sized by it would then read and write past the
caches of a program that was compiled for other limits, and answer nonsense without an error.

Shape legend: B batch rows, K key/value heads, S slots, D key or value size.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from runtime_shims.contract.cache_types import tail_elements
from runtime_shims.contract.manifest import CacheEntry, Manifest, MethodEntry, ProgramEntry, TensorEntry
from runtime_shims.reference.program_file import MethodMemory, PlannedTensor

CACHE_ARENA = 2
"""The arena of the buffers that methods share and write: the caches. Activations are in the one before it."""

Shape = tuple[int, ...]


@dataclass(frozen=True)
class StatedTensor:
    """An input or output as the program states it: its type and its largest sizes."""

    dtype: str
    sizes: Shape


@dataclass(frozen=True)
class StatedMethod:
    """A method as the program states it, tensors in call order."""

    name: str
    inputs: tuple[StatedTensor, ...]
    outputs: tuple[StatedTensor, ...]


def program_faults(
    manifest: Manifest, entry: ProgramEntry, methods: Iterable[StatedMethod], memory: tuple[MethodMemory, ...]
) -> list[str]:
    """Every difference between the manifest and the program of `entry`, each naming the manifest's key."""
    path = f"programs[{manifest.programs.index(entry)}]"
    stated = {method.name: method for method in methods}
    faults = []
    for method in entry.methods:
        faults += _method_faults(path, method, stated[method.name])
    return faults + _planned_faults(path, entry, memory) + _cache_faults(manifest, memory)


def _method_faults(path: str, method: MethodEntry, stated: StatedMethod) -> list[str]:
    faults = []
    lists = (("inputs", method.inputs, stated.inputs), ("outputs", method.outputs, stated.outputs))
    for name, tensors, found in lists:
        if len(tensors) != len(found):
            faults.append(f"{path}, {method.name}, {name}: {len(tensors)} are listed, the program has {len(found)}")
            continue
        for tensor, actual in zip(tensors, found, strict=True):
            faults += _tensor_faults(f"{path}, {method.name}, {tensor.name}", tensor, actual)
    return faults


def _tensor_faults(place: str, tensor: TensorEntry, stated: StatedTensor) -> list[str]:
    sizes = tuple(dim.maximum for dim in tensor.dims)
    if (tensor.dtype, sizes) == (stated.dtype, stated.sizes):
        return []
    return [f"{place}: at most {tensor.dtype} {list(sizes)} here, {stated.dtype} {list(stated.sizes)} in the program"]


def _planned_faults(path: str, entry: ProgramEntry, memory: tuple[MethodMemory, ...]) -> list[str]:
    """Methods share arenas, so a program takes the largest of each."""
    longest = max(len(method.arenas) for method in memory)
    padded = [method.arenas + (0,) * (longest - len(method.arenas)) for method in memory]
    planned = sum(max(sizes) for sizes in zip(*padded, strict=True))
    if planned == entry.planned_bytes:
        return []
    return [f"{path}.planned_bytes: {entry.planned_bytes} here, {planned} in the program"]


def _cache_faults(manifest: Manifest, memory: tuple[MethodMemory, ...]) -> list[str]:
    """The program's cache arena holds the bytes of the caches, and a buffer of the right shape for each."""
    arena = min(method.arenas[CACHE_ARENA] if len(method.arenas) > CACHE_ARENA else 0 for method in memory)
    faults = []
    if arena < manifest.memory.cache_bytes:
        faults.append(f"memory.cache_bytes: {manifest.memory.cache_bytes} here, the program holds {arena}")
    types = sorted({tensor.dtype for tensor in _cache_tensors(memory)})
    listed = sorted({cache.dtype for cache in manifest.caches})
    if types != listed:
        faults.append(f"caches: {', '.join(listed)} here, {', '.join(types) or 'none'} in the program")
    buffers = _cache_buffers(memory)
    if len(buffers) != 2 * len(manifest.caches):
        faults.append(f"caches: {len(manifest.caches)} are listed, the program holds {len(buffers)} buffers")
    for index, cache in enumerate(manifest.caches):
        for shape in _cache_shapes(cache, manifest.limits.max_batch):
            found = next((buffer for buffer in buffers if _fits(buffer, shape)), None)
            if found is None:  # what changed one cache changed others: the first is enough
                return [*faults, f"caches[{index}]: {list(shape)} rows, slots and sizes here, not in the program"]
            buffers.remove(found)
    return faults


def _cache_shapes(cache: CacheEntry, max_batch: int) -> tuple[Shape, Shape]:
    """Keys and values as [B * K, S, D], with what follows the values of a position."""
    rows, tail = max_batch * cache.kv_heads, tail_elements(cache.dtype)
    return (rows, cache.slots, cache.key_dim + tail), (rows, cache.slots, cache.value_dim + tail)


def _cache_buffers(memory: tuple[MethodMemory, ...]) -> list[set[Shape]]:
    """Every buffer of the cache arena, as the set of shapes in which the methods see it."""
    seen: dict[int, set[Shape]] = {}
    for tensor in _cache_tensors(memory):
        seen.setdefault(tensor.offset, set()).add(tensor.sizes)
    return list(seen.values())


def _cache_tensors(memory: tuple[MethodMemory, ...]) -> Iterator[PlannedTensor]:
    return (tensor for method in memory for tensor in method.tensors if tensor.arena == CACHE_ARENA)


def _fits(buffer: set[Shape], shape: Shape) -> bool:
    """Whether a buffer is a cache of `shape` [B * K, S, D].

    The fused form holds [B, K, S, D]. The form in core operators holds [B * K * S, D] and views it as
    [B * K, S, D], unless a backend took the view with the product that reads it.
    """
    rows, slots, size = shape
    views = {(math.prod(found[:-2]), *found[-2:]) for found in buffer if len(found) > 2}
    return shape in views if views else (rows * slots, size) in buffer
