"""A model and its assistant in integers, exported into one bundle that carries what both answered."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from exporter.pipeline import export_bundle
from exporter.spec.recipe import Recipe
from exporter.verify import parity
from exporter.verify.parity import ParityError, Stages
from runtime_shims.cli import main
from runtime_shims.contract.bundle_reader import read_bundle
from runtime_shims.contract.errors import UserInputError
from runtime_shims.native import operator_library_path
from runtime_shims.reference.golden import read_golden
from runtime_shims.reference.golden_drafts import GoldenDraft, GoldenDrafts, replay_drafts
from tests.parity.support import Planned
from tests.support.letters import letter_tokenizer
from tests.support.shared import made_once, shared_directory
from tests.support.tiny_configs import VOCAB
from tests.support.tiny_models import build, build_assistant

pytestmark = pytest.mark.skipif(operator_library_path() is None, reason="the C++ operator library is not installed")


@pytest.fixture(scope="module")
def assisted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    shelf = shared_directory(tmp_path_factory, "assisted")

    def make(model: Path) -> None:
        build("gemma4").save_pretrained(model)
        letter_tokenizer(VOCAB).save_pretrained(model)

    made_once(shelf / "gemma4", make)
    made_once(shelf / "assistant", lambda model: build_assistant(clustered=True).save_pretrained(model))
    limits = {"max_batch": 2, "max_dec": 40, "max_draft": 3, "prefill_chunk": 4}
    recipe = Recipe(str(shelf / "gemma4"), draft=str(shelf / "assistant"), quantize="8da4w", embedding_bits=4, **limits)
    return made_once(shelf / "bundle", lambda target: export_bundle(recipe, target))


def test_a_bundle_with_an_assistant_is_verified_with_its_drafts(
    assisted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    golden = read_golden(read_bundle(assisted)).drafts
    assert golden is not None
    assert [[len(draft.top) for draft in row] for row in golden.rows] == [[1] * 3] * 2
    assert main(["verify", str(assisted), "--json"]) == 0
    rungs = json.loads(capsys.readouterr().out)["rungs"]
    assert rungs[-1]["check"] == "drafts"
    assert rungs[-1]["detail"].startswith("6 of the assistant, largest difference ")


def test_an_export_whose_drafts_differ_is_refused_with_the_rung(
    assisted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last logit of the file is moved; the method itself is right, so its module is the first that differs."""
    golden = read_golden(read_bundle(assisted))
    assert golden.drafts is not None
    *rows, (*drafts, last) = golden.drafts.rows
    ((token, logit), *others) = last.top
    moved = replace(last, top=((token, logit + 100.0), *others))
    wrong = replace(golden, drafts=replace(golden.drafts, rows=(*rows, (*drafts, moved))))
    monkeypatch.setattr(parity, "read_golden", lambda bundle: wrong)
    planned = Planned.of("gemma4", "portable", drafter="clustered")
    with pytest.raises(ParityError, match=r"the drafts of the cached rung differ from the assistant's: logits by"):
        parity.verify_bundle(assisted, lambda backend: Stages(planned.methods, planned.traced))


def test_golden_drafts_that_a_bundle_cannot_make_are_refused(assisted: Path) -> None:
    session = parity.open_session(read_bundle(assisted), "xnnpack")
    unknown = GoldenDrafts(((GoldenDraft(5, ((VOCAB, 1.0),)),),), 1.0)
    with pytest.raises(UserInputError, match="the golden drafts"):
        replay_drafts(session, ((5, 6),), unknown)
