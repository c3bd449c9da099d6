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

from runtime_shims.contract.bundle_reader import REPAIR
from runtime_shims.contract.errors import BundleCorrupt

IDENTIFIER = b"ET12"
"""The file's type and the version of its schema, at bytes 4 to 7."""

# Fields by their place in the schema's tables.
_PROGRAM_METHODS = 1
_METHOD_NAME, _METHOD_VALUES, _METHOD_ARENAS = 0, 2, 8
_VALUE_KIND, _VALUE = 0, 1
_TENSOR_SIZES, _TENSOR_PLACE = 2, 6
_PLACE_ARENA, _PLACE_LOW, _PLACE_HIGH = 0, 1, 2
_KIND_TENSOR = 5


@dataclass(frozen=True)
class PlannedTensor:
    """A tensor in planned memory: its largest sizes, and where it begins, in bytes from its arena's start."""

    arena: int
    offset: int
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
    except (struct.error, ValueError, OverflowError) as error:
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
    return PlannedTensor(place.word(_PLACE_ARENA), offset, tensor.integers(_TENSOR_SIZES, "i"))


class _Table:
    """A FlatBuffer table at `start`: a signed step back to its list of field offsets, then the fields."""

    def __init__(self, data: mmap.mmap, start: int) -> None:
        self._data = data
        self._start = start
        self._fields = start - self._read("i", start)
        self._fields_end = self._fields + self._read("H", self._fields)

    def byte(self, field: int) -> int:
        """An unsigned byte; 0 when left out."""
        at = self._at(field)
        return 0 if at is None else self._read("B", at)

    def word(self, field: int) -> int:
        """An unsigned 32-bit number; 0 when left out."""
        at = self._at(field)
        return 0 if at is None else self._read("I", at)

    def text(self, field: int) -> str:
        """A text; empty when left out."""
        start, count = self._vector(field)
        return bytes(self._data[start : start + count]).decode("utf-8")

    def integers(self, field: int, code: str) -> tuple[int, ...]:
        """A list of numbers of one struct code; empty when left out."""
        start, count = self._vector(field)
        return struct.unpack_from(f"<{count}{code}", self._data, start)

    def table(self, field: int) -> _Table | None:
        """The table that a field leads to."""
        at = self._at(field)
        return None if at is None else _Table(self._data, at + self._read("I", at))

    def tables(self, field: int) -> Iterator[_Table]:
        """A list of tables."""
        start, count = self._vector(field)
        for at in range(start, start + 4 * count, 4):
            yield _Table(self._data, at + self._read("I", at))

    def _vector(self, field: int) -> tuple[int, int]:
        """Where a list's first item lies, and how many there are."""
        at = self._at(field)
        if at is None:
            return 0, 0
        start = at + self._read("I", at)
        return start + 4, self._read("I", start)

    def _at(self, field: int) -> int | None:
        """Where a field lies; None when it is left out."""
        entry = self._fields + 4 + 2 * field
        offset = self._read("H", entry) if entry < self._fields_end else 0
        return self._start + offset if offset else None

    def _read(self, code: str, at: int) -> int:
        if at < 0:
            raise ValueError(f"offset {at}")
        value: int = struct.unpack_from(f"<{code}", self._data, at)[0]
        return value
