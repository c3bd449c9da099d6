"""How the files of an ONNX program, and its caches among their inputs and outputs, are named.

A program of several methods is a file `<method>.onnx` for each, and one file of weights for all. The keys of a cache
are the input `past_key_values.<layer>.key` of every method that reads them, and the output `present.<layer>.key` of the
one that writes them, as ONNX Runtime's users know it; in encoder-decoders `<layer>.decoder.key` of self-attention and
`<layer>.encoder.key` of cross-attention.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runtime_shims.contract.manifest import CacheEntry, ModelKind, ProgramEntry

WEIGHTS_NAME = "weights.bin"
"""The weights of all methods of an ONNX program, beside them."""
PARTS = ("key", "value")
OPSET = 24
"""The first version of ONNX's operators that has `TensorScatter`."""
RUNTIME = "1.27"
"""The oldest version of ONNX Runtime that is known to run it."""


def method_file(method: str) -> str:
    """The file of one method."""
    return f"{method}.onnx"


def method_path(program_file: str, method: str) -> str:
    """The file of one method of the program `program_file`, which lies beside it."""
    return PurePosixPath(program_file).with_name(method_file(method)).as_posix()


def other_files(program: ProgramEntry) -> list[str]:
    """Every file of a program, of whatever format, beside `program.file` itself: methods, then weights."""
    if program.format != "onnx":
        return []
    others = [method_path(program.file, method.name) for method in program.methods if method.name != "decode"]
    return [*others, PurePosixPath(program.file).with_name(WEIGHTS_NAME).as_posix()]


def read_caches(method: str, caches: Iterable[CacheEntry]) -> list[CacheEntry]:
    """The caches that a method takes, in the order of its inputs: `encode` the cross caches, `decode` all.

    `draft` takes the last of each kind.
    """
    if method == "draft":
        entries = tuple(caches)
        last = {entry.kind: entry for entry in entries}
        return [entry for entry in entries if last[entry.kind] is entry]
    wanted = {"encode": ("cross",), "decode": ("full", "sliding", "cross")}.get(method, ())
    return [entry for entry in caches if entry.kind in wanted]


def written_caches(method: str, caches: Iterable[CacheEntry]) -> list[CacheEntry]:
    """The caches that a method returns, in the order of its outputs: `encode` the cross caches, `decode` the others."""
    if method == "draft":
        return []
    return [entry for entry in read_caches(method, caches) if (entry.kind == "cross") == (method == "encode")]


def past_names(caches: Iterable[CacheEntry], kind: ModelKind) -> list[str]:
    """Names of these caches as inputs, keys before values."""
    return [f"past_key_values.{_place(entry, kind)}.{part}" for entry in caches for part in PARTS]


def present_names(caches: Iterable[CacheEntry], kind: ModelKind) -> list[str]:
    """Names of these caches as outputs."""
    return [f"present.{_place(entry, kind)}.{part}" for entry in caches for part in PARTS]


def _place(entry: CacheEntry, kind: ModelKind) -> str:
    if kind == "decoder_only":
        return str(entry.layer)
    return f"{entry.layer}.{'encoder' if entry.kind == 'cross' else 'decoder'}"
