"""JSON Schema (2020-12) of the manifest, generated from its classes.

    python -m runtime_shims.contract.manifest_schema     rewrites manifest.schema.json

The schema is for readers in other languages; `manifest.py` does not need it. It says what the types
say: every key required, no other key allowed. The rules between fields are in `manifest_rules`.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from runtime_shims.contract.manifest import FORMAT_VERSION, Manifest
from runtime_shims.contract.strict_types import (
    LARGEST_INTEGER,
    BooleanType,
    IntegerType,
    ListType,
    NullableType,
    ObjectType,
    ScalarType,
    ValueType,
    describe,
)

SCHEMA_PATH = Path(__file__).with_name("manifest.schema.json")


def manifest_schema() -> dict[str, Any]:
    """The schema as JSON data; each class but the outermost is one entry of `$defs`."""
    definitions: dict[str, Any] = {}
    root = describe(Manifest)
    assert isinstance(root, ObjectType)
    body = _object(root, definitions)
    body["properties"]["format_version"] = {"const": FORMAT_VERSION}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Bundle manifest, format version {FORMAT_VERSION}",
        **body,
        "$defs": dict(sorted(definitions.items())),
    }


def schema_text() -> str:
    """The text of manifest.schema.json."""
    return json.dumps(manifest_schema(), indent=2) + "\n"


def _object(kind: ObjectType, definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema of an object; the classes it uses are added to `definitions`."""
    first_paragraph = (kind.cls.__doc__ or "").split("\n\n")[0]
    return {
        "description": re.sub(r"\s+", " ", first_paragraph).strip(),
        "type": "object",
        "properties": {name: _schema(inner, definitions) for name, inner in kind.fields},
        "required": [name for name, _ in kind.fields],
        "additionalProperties": False,
    }


def _schema(kind: ValueType, definitions: dict[str, Any]) -> dict[str, Any]:
    if isinstance(kind, NullableType):
        return {"anyOf": [_schema(kind.inner, definitions), {"type": "null"}]}
    if isinstance(kind, ListType):
        return {"type": "array", "items": _schema(kind.inner, definitions)}
    if isinstance(kind, ObjectType):
        name = kind.cls.__name__
        if name not in definitions:
            definitions[name] = _object(kind, definitions)
        return {"$ref": f"#/$defs/{name}"}
    return _scalar(kind)


def _scalar(kind: ScalarType) -> dict[str, Any]:
    if isinstance(kind, BooleanType):
        return {"type": "boolean"}
    if isinstance(kind, IntegerType):
        return {"type": "integer", "minimum": kind.minimum, "maximum": LARGEST_INTEGER}
    if kind.choices is not None:
        return {"enum": list(kind.choices)}
    if kind.pattern is not None:
        return {"type": "string", "pattern": f"^(?:{kind.pattern})$"}
    return {"type": "string"}


if __name__ == "__main__":
    SCHEMA_PATH.write_text(schema_text(), encoding="utf-8")
