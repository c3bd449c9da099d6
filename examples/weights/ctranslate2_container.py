"""Read the variables of a CTranslate2 ``model.bin`` without CTranslate2.

Layout, little-endian: ``u32`` container version, spec name, ``u32`` spec revision, ``u32`` variable count;
per variable: name, ``u8`` rank, ``u32`` per dimension, ``u8`` element type, ``u32`` byte count, data; then
``u32`` alias count and pairs (alias, name). A string is a ``u16`` length, which counts its closing NUL,
and the bytes.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

_CONTAINER_VERSION = 6
_ELEMENT_TYPES = {0: np.float32, 1: np.int8, 2: np.int16, 3: np.int32, 4: np.float16}


class ContainerInvalid(ValueError):
    """The file is not a container of the version and element types this reader knows."""


@dataclass(frozen=True)
class Container:
    """A model's spec name (``WhisperSpec``) and its variables by name; aliases are resolved."""

    spec: str
    revision: int
    variables: dict[str, np.ndarray]

    def scalar(self, name: str) -> int:
        """A variable of rank 0, such as ``decoder/num_heads``."""
        return int(self.variables[name])

    def count_layers(self, stack: str) -> int:
        """How many ``{stack}/layer_{i}`` groups there are."""
        groups = (name.split("/")[1] for name in self.variables if name.startswith(f"{stack}/layer_"))
        return len({group for group in groups if group.removeprefix("layer_").isdigit()})


def read_container(path: Path) -> Container:
    """Read ``model.bin``. Arrays keep their stored element type.

    Raises:
        ContainerInvalid: unknown version or element type, or a file that ends too early.
    """
    try:
        with path.open("rb") as file:
            return _read(file)
    except (struct.error, UnicodeDecodeError) as error:
        raise ContainerInvalid(f"{path} is damaged: {error}") from error


def _read(file: BinaryIO) -> Container:
    version = _unsigned(file, "I")
    if version != _CONTAINER_VERSION:
        raise ContainerInvalid(f"container version {version} is not supported, only {_CONTAINER_VERSION}")
    spec, revision = _string(file), _unsigned(file, "I")
    variables: dict[str, np.ndarray] = {}
    for _ in range(_unsigned(file, "I")):
        name = _string(file)
        variables[name] = _array(file, name)
    for _ in range(_unsigned(file, "I")):
        alias = _string(file)
        variables[alias] = variables[_string(file)]
    return Container(spec, revision, variables)


def _array(file: BinaryIO, name: str) -> np.ndarray:
    shape = tuple(_unsigned(file, "I") for _ in range(_unsigned(file, "B")))
    code, size = _unsigned(file, "B"), _unsigned(file, "I")
    if code not in _ELEMENT_TYPES:
        raise ContainerInvalid(f"{name} has element type {code}; known: {sorted(_ELEMENT_TYPES)}")
    data = file.read(size)
    expected = int(np.prod(shape, dtype=np.int64)) * np.dtype(_ELEMENT_TYPES[code]).itemsize
    if len(data) != size or size != expected:
        raise ContainerInvalid(f"{name}: {len(data)} bytes, {expected} expected for shape {shape}")
    return np.frombuffer(data, dtype=_ELEMENT_TYPES[code]).reshape(shape)


def _unsigned(file: BinaryIO, code: str) -> int:
    layout = struct.Struct("<" + code)
    return int(layout.unpack(file.read(layout.size))[0])


def _string(file: BinaryIO) -> str:
    return file.read(_unsigned(file, "H")).decode().rstrip("\0")
