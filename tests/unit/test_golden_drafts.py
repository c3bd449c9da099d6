"""Golden drafts in their file: read back as they were, refused when malformed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from runtime_doubles import history_session
from test_run_model_cli import golden
from test_session_checks import refused

from runtime_shims.reference.golden import Golden, from_json, to_json
from runtime_shims.reference.golden_drafts import GoldenDraft, GoldenDrafts, replay_drafts

DRAFTS = GoldenDrafts(((GoldenDraft(3, ((5, 1.5), (6, -2.0))), GoldenDraft(5, ((4, 0.5),))), ()), 0.25)


def text_with(drafts: GoldenDrafts | None) -> bytes:
    plain: Golden = from_json(golden([5, 6]))
    return to_json(replace(plain, drafts=drafts)).encode()


@pytest.mark.parametrize("drafts", [DRAFTS, None])
def test_golden_drafts_read_back_as_they_were(drafts: GoldenDrafts | None) -> None:
    assert from_json(text_with(drafts)).drafts == drafts


@pytest.mark.parametrize(
    ("wrong", "part"),
    [
        (b'"drafts": 3', "drafts: expected an object with exactly the keys rows, tolerance_abs"),
        (b'"drafts": {"rows": 3, "tolerance_abs": 1}', "drafts.rows: expected a list"),
        (b'"drafts": {"rows": [[{"after": 1}]], "tolerance_abs": 1}', "exactly the keys after, top"),
        (b'"drafts": {"rows": [[{"after": -1, "top": []}]], "tolerance_abs": 1}', "drafts.rows: expected an integer"),
        (b'"drafts": {"rows": [[{"after": 1, "top": [[1]]}]], "tolerance_abs": 1}', "pairs of token and logit"),
        (b'"drafts": {"rows": [], "tolerance_abs": null}', "drafts.tolerance_abs: expected a finite number"),
    ],
)
def test_malformed_golden_drafts_are_refused(wrong: bytes, part: str) -> None:
    with pytest.raises(Exception, match=part.replace("[", r"\[")):
        from_json(text_with(None).replace(b'"drafts": null', wrong))


def test_drafts_of_a_bundle_without_an_assistant_are_refused() -> None:
    session, program = history_session()
    line = refused(session, program, lambda: replay_drafts(session, ((5, 6),), DRAFTS))
    assert "the bundle has no assistant" in line
