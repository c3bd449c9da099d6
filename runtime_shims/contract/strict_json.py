"""JSON to frozen dataclasses and back, strictly: no unknown key, no missing key, no default, no guess.

Faults are collected, not raised one at a time. Each names its place, what is allowed and what is
there: `limits.max_batch: expected an integer >= 1, got "8"`.
"""

from __future__ import annotations

import dataclasses
import json
from typing import TypeVar

from runtime_shims.contract.strict_types import (
    BooleanType,
    IntegerType,
    ListType,
    NullableType,
    ObjectType,
    TextType,
    ValueType,
    describe,
)

T = TypeVar("T")

SHOWN_CHARACTERS = 60
"""A wrong value is quoted in a message up to this length."""


class NotStrictJson(ValueError):  # noqa: N818 - says what happened
    """The text is not JSON, or uses what strict JSON excludes: duplicate keys, NaN, Infinity."""


def parse(text: bytes) -> object:
    """The value of a UTF-8 JSON text. Raises NotStrictJson with the place of the fault."""
    try:
        return json.loads(
            text.decode("utf-8"), object_pairs_hook=_without_duplicates, parse_constant=_refuse_constant
        )
    except UnicodeDecodeError as error:
        raise NotStrictJson(f"not UTF-8 text (byte {error.start})") from None
    except json.JSONDecodeError as error:
        raise NotStrictJson(f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise NotStrictJson("nested too deeply") from None
    except NotStrictJson:
        raise
    except ValueError:  # an integer of thousands of digits
        raise NotStrictJson("holds a number of too many digits") from None


def decode(cls: type[T], data: object) -> tuple[T | None, list[str]]:
    """An instance of dataclass `cls` from parsed JSON and no faults, or None and all faults."""
    faults: list[str] = []
    value = _decode(describe(cls), data, "", faults)
    return (value, []) if isinstance(value, cls) and not faults else (None, faults)


def encode(value: object) -> tuple[object, list[str]]:
    """The JSON data of a dataclass instance, and every field whose value its type does not allow."""
    faults: list[str] = []
    return _encode(describe(type(value)), value, "", faults), faults


def _decode(kind: ValueType, data: object, path: str, faults: list[str]) -> object:
    """The typed value of `data`; on a fault, it is recorded and the result is not to be used."""
    if isinstance(kind, NullableType) and data is None:
        return None
    expected, kind = kind.expectation(), kind.inner if isinstance(kind, NullableType) else kind
    if isinstance(kind, ListType):
        if not isinstance(data, list):
            return _refuse(expected, data, path, faults)
        return tuple(_decode(kind.inner, item, f"{path}[{i}]", faults) for i, item in enumerate(data))
    if isinstance(kind, ObjectType):
        if not isinstance(data, dict):
            return _refuse(expected, data, path, faults)
        return _decode_object(kind, data, path, faults)
    if isinstance(kind, BooleanType | IntegerType | TextType) and kind.accepts(data):
        return data
    return _refuse(expected, data, path, faults)


def _decode_object(kind: ObjectType, data: dict[str, object], path: str, faults: list[str]) -> object:
    names = [name for name, _ in kind.fields]
    missing = [name for name in names if name not in data]
    unknown = [key for key in data if key not in names]
    faults += [f"{_join(path, name)}: missing key" for name in missing]
    faults += [f"{_join(path, key)}: unknown key, allowed are {', '.join(names)}" for key in unknown]
    values = {
        name: _decode(inner, data[name], _join(path, name), faults)
        for name, inner in kind.fields
        if name in data
    }
    return None if missing else kind.cls(**values)


def _encode(kind: ValueType, value: object, path: str, faults: list[str]) -> object:
    """Plain JSON data of a typed value; a value of the wrong type is recorded as a fault."""
    if isinstance(kind, NullableType) and value is None:
        return None
    expected, kind = kind.expectation(), kind.inner if isinstance(kind, NullableType) else kind
    if isinstance(kind, ListType):
        if not isinstance(value, tuple):
            return _refuse("a tuple", value, path, faults)
        return [_encode(kind.inner, item, f"{path}[{i}]", faults) for i, item in enumerate(value)]
    if isinstance(kind, ObjectType):
        if type(value) is not kind.cls:
            return _refuse(f"a {kind.cls.__name__}", value, path, faults)
        return {
            name: _encode(inner, getattr(value, name), _join(path, name), faults)
            for name, inner in kind.fields
        }
    if isinstance(kind, BooleanType | IntegerType | TextType) and kind.accepts(value):
        return value
    return _refuse(expected, value, path, faults)


def _refuse(expected: str, got: object, path: str, faults: list[str]) -> object:
    faults.append(f"{path or 'top level'}: expected {expected}, got {shown(got)}")
    return None


def shown(value: object) -> str:
    """A short, one-line picture of any value for a message."""
    if isinstance(value, dict) or dataclasses.is_dataclass(value):
        return "an object"
    if isinstance(value, list | tuple):
        return f"a {type(value).__name__} of {len(value)}"
    try:
        text = json.dumps(value, ensure_ascii=True)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "..."


def _join(path: str, name: str) -> str:
    """The path of key `name` under `path`; a key that is not a plain name is quoted."""
    shown_name = name if name.isascii() and name.isidentifier() else shown(name)
    return f"{path}.{shown_name}" if path else shown_name


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise NotStrictJson(f"key {shown(key)} is given twice in one object")
        found[key] = value
    return found


def _refuse_constant(name: str) -> object:
    raise NotStrictJson(f"holds {name}, which is not a JSON number")
