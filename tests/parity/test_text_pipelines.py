"""Text-to-text pipelines over the trained small T5, exported by `from_pretrained`: right answers, and stock ones."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers import pipeline as stock_pipeline

from exporter.hf import FixedCapacityModelForSeq2SeqLM, pipeline
from exporter.hf_models.pipelines import Text2TextPipeline
from runtime_shims.contract.errors import UserInputError
from tests.support.small_t5 import LONGEST, SMALL_T5, load, strings

EXAMPLE = Path(__file__).parents[2] / "examples" / "pipelines.py"
TEXTS = strings(11, seed=3)
LIMITS = {"max_batch": 4, "max_enc": LONGEST + 3, "max_dec": LONGEST + 8, "max_draft": 2, "prefill_chunk": 2}


@pytest.fixture(scope="module")
def model() -> FixedCapacityModelForSeq2SeqLM:
    options = {"backends": ["portable"], "attention": "portable", "verify": False}
    return FixedCapacityModelForSeq2SeqLM.from_pretrained(SMALL_T5, export=True, **LIMITS, **options)


@pytest.fixture(scope="module")
def stock() -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    return load()


def test_a_model_that_was_exported_to_no_place_of_its_own_is_a_bundle_until_it_is_gone(
    model: FixedCapacityModelForSeq2SeqLM, tmp_path: Path
) -> None:
    assert model.manifest.recipe.max_batch == LIMITS["max_batch"]
    model.save_pretrained(tmp_path / "kept")
    kept = FixedCapacityModelForSeq2SeqLM.from_pretrained(tmp_path / "kept")
    directory = kept.bundle.root
    del kept
    assert directory.is_dir()
    assert model.bundle.root.is_dir()


@pytest.mark.parametrize(
    ("task", "key"),
    [
        ("translation", "translation_text"),
        ("translation_en_to_ne", "translation_text"),
        ("summarization", "summary_text"),
        ("text2text-generation", "generated_text"),
    ],
)
def test_batches_of_texts_are_answered_as_the_stock_model_answers(
    model: FixedCapacityModelForSeq2SeqLM,
    stock: tuple[PreTrainedModel, PreTrainedTokenizerBase],
    task: str,
    key: str,
) -> None:
    answers = pipeline(task, model)(TEXTS, batch_size=LIMITS["max_batch"])
    assert answers == [{key: text[::-1]} for text in TEXTS]
    reference = Text2TextPipeline(model=stock[0], tokenizer=stock[1], task=task, device="cpu")
    assert answers == reference(TEXTS, batch_size=LIMITS["max_batch"])


def test_one_text_gives_a_list_and_settings_reach_generate(model: FixedCapacityModelForSeq2SeqLM) -> None:
    run = pipeline("translation", model)
    assert run(TEXTS[0]) == [{"translation_text": TEXTS[0][::-1]}]
    assert run("abcdef", max_new_tokens=3) == [{"translation_text": "fed"}]
    assert len(run(["abc"], do_sample=True, num_return_sequences=3)[0]) == 3


def test_the_prefix_of_a_task_is_put_before_the_text(
    model: FixedCapacityModelForSeq2SeqLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model.config, "task_specific_params", {"translation_a_to_b": {"prefix": "xy"}}, raising=False)
    assert pipeline("translation_a_to_b", model)("abc") == [{"translation_text": "cbayx"}]
    assert pipeline("translation_a_to_b", model)("abc", prefix="q") == [{"translation_text": "cbaq"}]
    assert pipeline("summarization", model)("abc") == [{"summary_text": "cba"}]


def test_a_text_that_is_too_long_is_refused_or_cut_where_that_is_asked_for(
    model: FixedCapacityModelForSeq2SeqLM,
) -> None:
    run = pipeline("translation", model)
    with pytest.raises(Exception, match=r"the encoder holds at most 27 positions; .*--max-enc"):
        run("a" * 40)
    assert run("ab" * 20, truncation=True) == run("ab" * 13)  # and the end of the text
    run.tokenizer.model_max_length = 4
    assert run("abcdef", truncation=True) == [{"translation_text": "cba"}]


def test_what_is_no_text_is_refused(model: FixedCapacityModelForSeq2SeqLM) -> None:
    for given in (None, b"abc", [1, 2]):
        with pytest.raises(UserInputError, match=r"task translation takes texts, got a (NoneType|bytes|int)"):
            pipeline("translation", model)(given)


def test_transformers_has_no_text_to_text_pipelines_any_more(model: FixedCapacityModelForSeq2SeqLM) -> None:
    with pytest.raises(KeyError, match="translation has been removed from transformers"):
        stock_pipeline("translation", model=model)


def test_the_example_prints_an_answer_for_each_text(
    model: FixedCapacityModelForSeq2SeqLM, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["pipelines.py", "translation", str(model.bundle.root), "abc", "1234567", "x"])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert capsys.readouterr().out == "cba\n7654321\nx\n"
    monkeypatch.setattr(sys, "argv", ["pipelines.py", "translation"])
    with pytest.raises(SystemExit, match=r"usage: pipelines\.py TASK BUNDLE"):
        runpy.run_path(str(EXAMPLE), run_name="__main__")
