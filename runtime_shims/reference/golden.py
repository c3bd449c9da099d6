"""The golden file of a bundle: requests, and what the exported model answered to them.

    {"requests": [{"source": [[ids]] | null, "features_seed": int | null, "prompts": [[ids]],
                   "max_new_tokens": n, "tokens": [[ids]],
                   "first_logits_top": [[[token, logit], ...] per row]}],
     "tolerance": {"logits_abs": x}, "features": null or see `golden_features`,
     "drafts": null or see `golden_drafts`}

Tokens are the new ones of each row, the end-of-sequence token included. The first logits are the raw
ones after the prompt, before any token rule. Speech features are not stored: they are drawn from a
seed, see `replay.seeded_features` and `replay.seeded_sounds`.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

from runtime_shims.contract.bundle_reader import REPAIR, Bundle
from runtime_shims.contract.errors import BundleCorrupt, UserInputError
from runtime_shims.contract.strict_json import NotStrictJson, parse, shown
from runtime_shims.contract.strict_types import LARGEST_INTEGER
from runtime_shims.reference.golden_drafts import GoldenDraft, GoldenDrafts
from runtime_shims.reference.golden_features import GoldenFeatures

GOLDEN_NAME = "golden.json"
_REQUEST_KEYS = ("source", "features_seed", "prompts", "max_new_tokens", "tokens", "first_logits_top")

IdRows = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class GoldenRequest:
    """One request and its answer; at most one of `source` and `features_seed` is given."""

    source: IdRows | None
    features_seed: int | None
    prompts: IdRows
    max_new_tokens: int
    tokens: IdRows
    first_logits_top: tuple[tuple[tuple[int, float], ...], ...]


@dataclass(frozen=True)
class Golden:
    """All requests, how far a logit may be from the recorded one, and what front end and assistant answered."""

    requests: tuple[GoldenRequest, ...]
    logits_tolerance: float
    features: GoldenFeatures | None = None
    drafts: GoldenDrafts | None = None


class _Fault(Exception):
    """The place and cause of one fault, for read_golden."""


def read_golden(bundle: Bundle) -> Golden:
    """The golden file of `bundle`. Raises UserInputError without one, BundleCorrupt if it is malformed."""
    if not any(entry.path == GOLDEN_NAME for entry in bundle.manifest.files):
        raise UserInputError(f"the bundle carries no {GOLDEN_NAME} to replay; export it without --no-verify")
    try:
        return from_json(bundle.file(GOLDEN_NAME).read_bytes())
    except (NotStrictJson, _Fault) as error:
        raise BundleCorrupt(GOLDEN_NAME, [str(error)], REPAIR) from None


def from_json(text: bytes) -> Golden:
    """Parse a golden file. Raises NotStrictJson or an internal fault that names its place."""
    top = _object(parse(text), "top level", ("requests", "tolerance", "features", "drafts"))
    tolerance = _object(top["tolerance"], "tolerance", ("logits_abs",))
    requests = _list(top["requests"], "requests")
    return Golden(
        requests=tuple(_request(item, f"requests[{i}]") for i, item in enumerate(requests)),
        logits_tolerance=_number(tolerance["logits_abs"], "tolerance.logits_abs"),
        features=None if top["features"] is None else _features(top["features"]),
        drafts=None if top["drafts"] is None else _drafts(top["drafts"]),
    )


def to_json(golden: Golden) -> str:
    """The text that `from_json` reads back as the same value."""
    requests = [{key: getattr(request, key) for key in _REQUEST_KEYS} for request in golden.requests]
    features, drafts = golden.features, golden.drafts
    data = {
        "requests": requests,
        "tolerance": {"logits_abs": golden.logits_tolerance},
        "features": None if features is None else {"rows": features.rows, "tolerance_abs": features.tolerance},
        "drafts": None if drafts is None else {"rows": _draft_rows(drafts), "tolerance_abs": drafts.tolerance},
    }
    return json.dumps(data, allow_nan=False) + "\n"


def _request(data: object, path: str) -> GoldenRequest:
    fields = _object(data, path, _REQUEST_KEYS)
    source, seed = fields["source"], fields["features_seed"]
    if source is not None and seed is not None:
        raise _Fault(f"{path}: source and features_seed exclude each other")
    request = GoldenRequest(
        source=None if source is None else _id_rows(source, f"{path}.source"),
        features_seed=None if seed is None else _integer(seed, f"{path}.features_seed"),
        prompts=_id_rows(fields["prompts"], f"{path}.prompts"),
        max_new_tokens=_integer(fields["max_new_tokens"], f"{path}.max_new_tokens"),
        tokens=_id_rows(fields["tokens"], f"{path}.tokens"),
        first_logits_top=tuple(
            _top(row, f"{path}.first_logits_top[{i}]")
            for i, row in enumerate(_list(fields["first_logits_top"], f"{path}.first_logits_top"))
        ),
    )
    rows = len(request.prompts)
    if len(request.tokens) != rows or len(request.first_logits_top) != rows:
        raise _Fault(f"{path}: prompts, tokens and first_logits_top must have the same number of rows")
    return request


def _features(data: object) -> GoldenFeatures:
    fields = _object(data, "features", ("rows", "tolerance_abs"))
    rows = [_list(row, "features.rows") for row in _list(fields["rows"], "features.rows")]
    return GoldenFeatures(
        rows=tuple(tuple(_feature(item) for item in row) for row in rows),
        tolerance=_number(fields["tolerance_abs"], "features.tolerance_abs"),
    )


def _feature(data: object) -> tuple[int, int, float]:
    item = _list(data, "features.rows")
    if len(item) != 3:
        raise _Fault("features.rows: expected mel bin, frame and value")
    mel, frame, value = item
    return _integer(mel, "features.rows"), _integer(frame, "features.rows"), _number(value, "features.rows")


def _draft_rows(drafts: GoldenDrafts) -> list[list[dict[str, object]]]:
    return [[{"after": draft.after, "top": draft.top} for draft in row] for row in drafts.rows]


def _drafts(data: object) -> GoldenDrafts:
    fields = _object(data, "drafts", ("rows", "tolerance_abs"))
    rows = [_list(row, "drafts.rows") for row in _list(fields["rows"], "drafts.rows")]
    return GoldenDrafts(
        rows=tuple(tuple(_draft(item) for item in row) for row in rows),
        tolerance=_number(fields["tolerance_abs"], "drafts.tolerance_abs"),
    )


def _draft(data: object) -> GoldenDraft:
    fields = _object(data, "drafts.rows", ("after", "top"))
    return GoldenDraft(_integer(fields["after"], "drafts.rows"), _top(fields["top"], "drafts.rows"))


def _top(data: object, path: str) -> tuple[tuple[int, float], ...]:
    pairs = [_list(pair, path) for pair in _list(data, path)]
    if any(len(pair) != 2 for pair in pairs):
        raise _Fault(f"{path}: expected pairs of token and logit")
    return tuple((_integer(token, path), _number(logit, path)) for token, logit in pairs)


def _id_rows(data: object, path: str) -> IdRows:
    return tuple(tuple(_integer(token, path) for token in _list(row, path)) for row in _list(data, path))


def _object(data: object, path: str, keys: tuple[str, ...]) -> dict[str, object]:
    if not isinstance(data, dict) or set(data) != set(keys):
        raise _Fault(f"{path}: expected an object with exactly the keys {', '.join(keys)}")
    return data


def _list(data: object, path: str) -> list[object]:
    if not isinstance(data, list):
        raise _Fault(f"{path}: expected a list, got {shown(data)}")
    return data


def _integer(data: object, path: str) -> int:
    if type(data) is not int or not 0 <= data <= LARGEST_INTEGER:
        raise _Fault(f"{path}: expected an integer in 0..{LARGEST_INTEGER}, got {shown(data)}")
    return data


def _number(data: object, path: str) -> float:
    if not isinstance(data, int | float) or isinstance(data, bool) or not math.isfinite(data):
        raise _Fault(f"{path}: expected a finite number, got {shown(data)}")
    return float(data)
