"""What an ExecuTorch program file states about its memory: the arenas of each method and the tensors in them.

The runtime's Python bindings do not tell. The file is a FlatBuffer whose fields are only ever appended to
(`executorch/schema/program.fbs`), so the few that matter here are read in place, weights untouched.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from flatbuffers import number_types
from flatbuffers.table import Table

from runtime_shims.contract.bundle_reader import REPAIR
from runtime_shims.contract.errors import BundleCorrupt

IDENTIFIER = b"ET12"
"""The file's type and the version of its schema, at bytes 4 to 7."""

SCALAR_TYPES = {1: "int8", 3: "int32", 4: "int64", 5: "float16", 6: "float32", 11: "bool", 15: "bfloat16"}
"""The runtime's codes of the types that a manifest can name."""

# Fields by their place in the schema's tables.
_PROGRAM_METHODS = 1
_METHOD_NAME, _METHOD_VALUES, _METHOD_ARENAS = 0, 2, 8
_VALUE_KIND, _VALUE = 0, 1
_TENSOR_TYPE, _TENSOR_SIZES, _TENSOR_PLACE = 0, 2, 6
_PLACE_ARENA, _PLACE_LOW, _PLACE_HIGH = 0, 1, 2
_KIND_TENSOR = 5


@dataclass(frozen=True)
class PlannedTensor:
    """A tensor in planned memory: type, largest sizes, and where it begins, in bytes from its arena's start."""

    arena: int
    offset: int
    dtype: str
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class MethodMemory:
    """One method: bytes of each arena (the first is not used), and every tensor placed in one."""

    name: str
    arenas: tuple[int, ...]
    tensors: tuple[PlannedTensor, ...]


def require_identifier(path: Path) -> None:
    """Raise BundleCorrupt unless the file `path` says that it is a program of the schema read here.

    The runtime checks the same and quotes the bytes it found; where they are no UTF-8 text, its Python
    bindings end the process.
    """
    with path.open("rb") as file:
        found = file.read(8)[4:]
    if found != IDENTIFIER:
        fault = f"it is no ExecuTorch program: bytes 4 to 7 are {found!r}, a program has {IDENTIFIER!r}"
        raise BundleCorrupt(path.name, [fault], REPAIR)


def read_method_memory(path: Path) -> tuple[MethodMemory, ...]:
    """The planned memory of every method in the program file `path`.

    Raises BundleCorrupt when the file is not laid out as an ExecuTorch program.
    """
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            program = _Table(data, struct.unpack_from("<I", data, 0)[0])
            return tuple(_method(method) for method in program.tables(_PROGRAM_METHODS))
    except (struct.error, ValueError, OverflowError, TypeError) as error:  # TypeError: an offset below 0
        fault = f"it is not laid out as an ExecuTorch program ({error})"
        raise BundleCorrupt(path.name, [fault], REPAIR) from None


def _method(method: _Table) -> MethodMemory:
    values = method.tables(_METHOD_VALUES)
    tensors = (_planned(value.table(_VALUE)) for value in values if value.byte(_VALUE_KIND) == _KIND_TENSOR)
    return MethodMemory(
        name=method.text(_METHOD_NAME),
        arenas=method.integers(_METHOD_ARENAS, "q"),
        tensors=tuple(tensor for tensor in tensors if tensor is not None),
    )


def _planned(tensor: _Table | None) -> PlannedTensor | None:
    """None for a constant, or an input that the caller's memory holds."""
    place = None if tensor is None else tensor.table(_TENSOR_PLACE)
    if tensor is None or place is None:
        return None
    offset = place.word(_PLACE_LOW) + (place.word(_PLACE_HIGH) << 32)
    dtype, sizes = type_name(tensor.byte(_TENSOR_TYPE)), tensor.integers(_TENSOR_SIZES, "i")
    return PlannedTensor(place.word(_PLACE_ARENA), offset, dtype, sizes)


def type_name(code: int) -> str:
    """The type that a code of the runtime means, as a manifest names it."""
    return SCALAR_TYPES.get(code, f"scalar type {code}")


class _Table(Table):
    """A FlatBuffer table whose fields are given by their place in the schema."""

    def byte(self, field: int) -> int:
        """An unsigned byte; 0 when left out."""
        value: int = self.GetSlot(_slot(field), 0, number_types.Uint8Flags)
        return value

    def word(self, field: int) -> int:
        """An unsigned 32-bit number; 0 when left out."""
        value: int = self.GetSlot(_slot(field), 0, number_types.Uint32Flags)
        return value

    def text(self, field: int) -> str:
        """A text; empty when left out."""
        at = self.Offset(_slot(field))
        return bytes(self.String(self.Pos + at)).decode("utf-8") if at else ""

    def integers(self, field: int, code: str) -> tuple[int, ...]:
        """A list of numbers of one struct code; empty when left out."""
        at = self.Offset(_slot(field))
        return struct.unpack_from(f"<{self.VectorLen(at)}{code}", self.Bytes, self.Vector(at)) if at else ()

    def table(self, field: int) -> _Table | None:
        """The table that a field leads to."""
        at = self.Offset(_slot(field))
        return _Table(self.Bytes, self.Indirect(self.Pos + at)) if at else None

    def tables(self, field: int) -> Iterator[_Table]:
        """A list of tables."""
        at = self.Offset(_slot(field))
        if at:
            start = self.Vector(at)
            for place in range(start, start + 4 * self.VectorLen(at), 4):
                yield _Table(self.Bytes, self.Indirect(place))


def _slot(field: int) -> int:
    """Where a table's list of field offsets holds a field's."""
    return 4 + 2 * field
