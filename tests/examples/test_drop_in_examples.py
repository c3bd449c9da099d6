"""The drop-in examples say what is true of this transformers, and would say so if it were not."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest
from transformers import DynamicCache, EncoderDecoderCache, PreTrainedModel, StaticCache

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = ("drop_in_oversized_cache", "drop_in_assisted_sliding", "drop_in_assisted_t5", "drop_in_crop")


def exit_code(name: str) -> object:
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    return ended.value.code


@pytest.mark.parametrize("name", NAMES)
def test_upstream_fails_as_reported_and_our_cache_equals_the_reference(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not exit_code(name)
    assert len(capsys.readouterr().out.splitlines()) == 2


def oversized(model: PreTrainedModel, **limits: int) -> EncoderDecoderCache:
    """What the example warns of, in the place of ours."""
    config = model.config.get_text_config(decoder=True)
    sizes = (limits["max_dec"], limits["max_enc"])
    return EncoderDecoderCache(*(StaticCache(config=config, max_cache_len=size) for size in sizes))


def test_the_first_example_fails_where_our_cache_is_as_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("exporter.hf.fixed_capacity_cache", oversized)
    assert exit_code("drop_in_oversized_cache")


def dynamic(*arguments: Any, **options: Any) -> DynamicCache:
    """A static cache that is none: it takes the assistant."""
    return DynamicCache(config=options["config"])


def test_the_second_example_fails_where_upstream_has_mended_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transformers.StaticCache", dynamic)
    assert "takes an assistant model now" in str(exit_code("drop_in_assisted_sliding"))


def test_the_last_example_fails_where_upstream_has_mended_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transformers.cache_utils.DynamicSlidingWindowLayer.crop", lambda layer, tokens_to_remove: None)
    assert "crops a full window to a length now" in str(exit_code("drop_in_crop"))
