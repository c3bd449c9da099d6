"""The committed small T5: an ordinary checkpoint that does its task and stops at lengths of its own."""

from __future__ import annotations

from tests.support.small_t5 import SMALL_T5, load, strings


def test_the_checkpoint_stays_small_enough_to_commit() -> None:
    assert sum(file.stat().st_size for file in SMALL_T5.iterdir()) < 1_000_000


def test_greedy_decoding_reverses_fresh_strings_and_ends_each_with_eos() -> None:
    model, tokenizer = load()
    texts = strings(200)
    source = tokenizer(texts, padding=True, return_tensors="pt")
    generated = model.generate(**source, do_sample=False)
    answers = tokenizer.batch_decode(generated, skip_special_tokens=True)
    right = sum(answer == text[::-1] for answer, text in zip(answers, texts, strict=True))
    assert right >= 198
    assert (generated == tokenizer.eos_token_id).any(dim=1).all()


def test_the_tokenizer_has_one_token_per_character_and_appends_eos() -> None:
    _, tokenizer = load()
    ids = tokenizer("ab9").input_ids
    assert tokenizer.convert_ids_to_tokens(ids) == ["a", "b", "9", "</s>"]
    assert tokenizer.decode(ids, skip_special_tokens=True) == "ab9"
