"""Hub ids: aliases, revisions, and one quick line when the Hub cannot help. The Hub itself is a stand-in."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

from exporter.spec.faults import ModelSourceError
from exporter.spec.model_location import ModelLocation, locate

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def hub_answers(monkeypatch: pytest.MonkeyPatch, answer: Any) -> list[str]:
    """Let the Hub answer every question about a model with `answer`; returns the ids that are asked for."""
    asked: list[str] = []

    def model_info(self: object, repo_id: str, timeout: float) -> Any:
        asked.append(repo_id)
        assert timeout <= 5
        if isinstance(answer, Exception):
            raise answer
        return SimpleNamespace(sha=answer)

    monkeypatch.setattr("huggingface_hub.HfApi.model_info", model_info)
    return asked


def hub_error(kind: type[Exception]) -> Exception:
    error = kind.__new__(kind)
    Exception.__init__(error, "404 Client Error.\nRepository Not Found")
    return error


def refusal(model: str, *, random_weights: bool = False) -> str:
    with pytest.raises(ModelSourceError) as refused:
        locate(model, random_weights=random_weights)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_a_short_name_stands_for_its_hub_id(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = hub_answers(monkeypatch, COMMIT)
    expected = ModelLocation("google-t5/t5-small", path="google-t5/t5-small", revision=COMMIT)
    assert locate("t5-small", random_weights=False) == expected
    assert asked == ["google-t5/t5-small"]


def test_a_full_id_is_asked_for_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = hub_answers(monkeypatch, COMMIT)
    assert locate("someone/some-model", random_weights=False).revision == COMMIT
    assert asked == ["someone/some-model"]


def test_no_network_is_one_line_within_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    hub_answers(monkeypatch, ConnectionError("Name or service\nnot known"))
    began = time.monotonic()
    message = refusal("t5-small")
    assert time.monotonic() - began < 5
    assert "no network, or google-t5/t5-small is unknown" in message
    assert "use a local directory or .gguf file, or --random-weights" in message


def test_offline_mode_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: pytest.fail("asked the network"))
    assert "no network, or google-t5/t5-small is unknown" in refusal("t5-small")


def test_an_unknown_id_is_told_apart_from_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    hub_answers(monkeypatch, hub_error(RepositoryNotFoundError))
    assert "the Hub has no model someone/nothing" in refusal("someone/nothing")


def test_a_gated_model_says_how_to_get_in(monkeypatch: pytest.MonkeyPatch) -> None:
    hub_answers(monkeypatch, hub_error(GatedRepoError))
    assert "hf auth login" in refusal("google/gemma-3-270m")


def test_random_weights_of_an_unknown_name_list_the_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    hub_answers(monkeypatch, ConnectionError())
    assert "geometries known without network: t5-small, t5-base" in refusal("t5-huge", random_weights=True)


def test_an_earlier_download_serves_without_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    snapshot = tmp_path / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    hub_answers(monkeypatch, ConnectionError())
    cached = lambda repo_id, name: str(snapshot / name)  # noqa: E731
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", cached)
    location = locate("t5-small", random_weights=False)
    assert location == ModelLocation("google-t5/t5-small", path=str(snapshot), revision=COMMIT)
