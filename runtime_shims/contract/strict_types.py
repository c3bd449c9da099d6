"""What a dataclass field allows in JSON, read from its type hint.

One description serves the decoder and the encoder (`strict_json`) and the JSON Schema
(`manifest_schema`), so they cannot disagree. Hints that are understood:

    int, Annotated[int, AtLeast(n)]           str, Annotated[str, Matches(...)], Annotated[str, OneOf(...)]
    bool                                      Literal["a", "b"]
    tuple[X, ...]  (a JSON list)              X | None  (null is allowed; the key is still required)
    a dataclass    (a JSON object with exactly its fields as keys)
"""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from dataclasses import dataclass

LARGEST_INTEGER = 2**63 - 1
"""Integers are held as signed 64-bit numbers by every reader."""


@dataclass(frozen=True)
class AtLeast:
    """Constraint of an integer: not below `minimum`."""

    minimum: int


@dataclass(frozen=True)
class Matches:
    """Constraint of a text: the whole of it matches `pattern`; `meaning` says so in words."""

    pattern: str
    meaning: str


@dataclass(frozen=True)
class OneOf:
    """Constraint of a text: one of `choices`. For fields whose users hold them as plain `str`."""

    choices: tuple[str, ...]


@dataclass(frozen=True)
class BooleanType:
    """true or false."""

    def expectation(self) -> str:
        return "true or false"

    def accepts(self, value: object) -> bool:
        return isinstance(value, bool)


@dataclass(frozen=True)
class IntegerType:
    """A whole number in `minimum`..LARGEST_INTEGER; never a bool, never 1.0."""

    minimum: int

    def expectation(self) -> str:
        return f"an integer >= {self.minimum}"

    def accepts(self, value: object) -> bool:
        return type(value) is int and self.minimum <= value <= LARGEST_INTEGER


@dataclass(frozen=True)
class TextType:
    """A text; `choices` or `pattern` narrow it when given."""

    choices: tuple[str, ...] | None
    pattern: str | None
    meaning: str

    def expectation(self) -> str:
        return self.meaning

    def accepts(self, value: object) -> bool:
        if type(value) is not str or (self.choices is not None and value not in self.choices):
            return False
        if any("\ud800" <= character <= "\udfff" for character in value):  # cannot be written as UTF-8
            return False
        return self.pattern is None or re.fullmatch(self.pattern, value) is not None


@dataclass(frozen=True)
class NullableType:
    """Null or `inner`, which is never itself nullable."""

    inner: ScalarType | ListType | ObjectType

    def expectation(self) -> str:
        return f"{self.inner.expectation()} or null"


@dataclass(frozen=True)
class ListType:
    """A list of any length, every item an `inner`. In Python a tuple."""

    inner: ValueType

    def expectation(self) -> str:
        return "a list"


@dataclass(frozen=True)
class ObjectType:
    """An object with exactly the fields of `cls`, in that order when written."""

    cls: type
    fields: tuple[tuple[str, ValueType], ...]

    def expectation(self) -> str:
        return "an object"


ScalarType = BooleanType | IntegerType | TextType
ValueType = ScalarType | NullableType | ListType | ObjectType


def describe(hint: typing.Any) -> ValueType:
    """Description of a type hint; TypeError for a hint outside the table at the top."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _constrained(arguments[0], arguments[1])
    if origin is typing.Literal:
        return _constrained(str, OneOf(arguments))
    if origin in (typing.Union, types.UnionType) and len(arguments) == 2 and arguments[1] is type(None):
        inner = describe(arguments[0])
        if isinstance(inner, NullableType):
            raise TypeError(f"{hint!r} allows null twice")
        return NullableType(inner)
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return ListType(describe(arguments[0]))
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        hints = typing.get_type_hints(hint, include_extras=True)
        names = [field.name for field in dataclasses.fields(hint)]
        return ObjectType(hint, tuple((name, describe(hints[name])) for name in names))
    return _constrained(hint, None)


def _constrained(base: object, constraint: object) -> ScalarType:
    """Description of a scalar with at most one constraint."""
    if base is int and isinstance(constraint, AtLeast):
        return IntegerType(constraint.minimum)
    if base is int and constraint is None:
        return IntegerType(-LARGEST_INTEGER)
    if base is bool and constraint is None:
        return BooleanType()
    if base is str and isinstance(constraint, Matches):
        return TextType(None, constraint.pattern, constraint.meaning)
    if base is str and isinstance(constraint, OneOf):
        choices = constraint.choices
        return TextType(choices, None, "one of " + ", ".join(f'"{choice}"' for choice in choices))
    if base is str and constraint is None:
        return TextType(None, None, "a text")
    raise TypeError(f"no JSON form is defined for {base!r} with {constraint!r}")
