"""manifest.schema.json and the manifest's classes say the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from tiny_bundle import speech_manifest, tiny_manifest

from runtime_shims.contract.manifest import Manifest, to_json
from runtime_shims.contract.manifest_schema import SCHEMA_PATH, schema_text
from runtime_shims.contract.strict_json import decode

SCHEMA = json.loads(SCHEMA_PATH.read_text(encoding="utf-8"))
VALIDATOR = Draft202012Validator(SCHEMA)


def objects_in(schema: object) -> Iterator[dict[str, Any]]:
    """Every object schema at any depth."""
    if isinstance(schema, dict):
        if schema.get("type") == "object":
            yield schema
        for inner in schema.values():
            yield from objects_in(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from objects_in(inner)


def data_of(manifest: Manifest) -> dict[str, Any]:
    data = json.loads(to_json(manifest))
    assert isinstance(data, dict)
    return data


def places_in(data: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The path of every value below `data`."""
    pairs = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, inner in pairs:
        yield (*path, key)
        yield from places_in(inner, (*path, key))


def kinds_of_places(data: object) -> list[tuple[str | int, ...]]:
    """One path for each kind of place: entries of one list are alike."""
    kinds = {tuple("*" if isinstance(key, int) else key for key in path): path for path in places_in(data)}
    return list(kinds.values())


def with_value(data: dict[str, Any], path: tuple[str | int, ...], value: object) -> dict[str, Any]:
    """A copy of `data` in which the value at `path` is replaced."""
    copy = json.loads(json.dumps(data))
    target: Any = copy
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    return copy


def test_the_committed_schema_is_what_the_classes_generate() -> None:
    assert SCHEMA_PATH.read_text(encoding="utf-8") == schema_text(), (
        "run: python -m runtime_shims.contract.manifest_schema"
    )


def test_the_schema_is_valid_and_refuses_unknown_keys_everywhere() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    found = list(objects_in(SCHEMA))
    assert len(found) == 1 + len(SCHEMA["$defs"])
    for schema in found:
        assert schema["additionalProperties"] is False
        assert schema["required"] == list(schema["properties"])


@pytest.mark.parametrize("manifest", [tiny_manifest(), speech_manifest()], ids=lambda m: m.kind)
def test_the_schema_accepts_what_the_writer_writes(manifest: Manifest) -> None:
    VALIDATOR.validate(data_of(manifest))


@pytest.mark.parametrize("value", [None, True, -1, "", "../x", []], ids=repr)
def test_schema_and_reader_refuse_the_same_values_at_every_place(value: object) -> None:
    data = data_of(speech_manifest())
    for path in kinds_of_places(data):
        changed = with_value(data, path, value)
        assert VALIDATOR.is_valid(changed) == (decode(Manifest, changed)[1] == []), (path, value)


def test_schema_and_reader_refuse_a_missing_and_an_extra_key_in_every_object() -> None:
    data = data_of(speech_manifest())
    for path in kinds_of_places(data):
        parent: Any = data
        for key in path[:-1]:
            parent = parent[key]
        if isinstance(parent, dict):
            smaller = {key: inner for key, inner in parent.items() if key != path[-1]}
            for changed_parent in (smaller, parent | {"extra": 1}):
                changed = with_value(data, path[:-1], changed_parent) if path[:-1] else changed_parent
                assert not VALIDATOR.is_valid(changed)
                assert decode(Manifest, changed)[1]
