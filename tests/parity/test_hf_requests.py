"""Requests of `generate` over a program: where rows end, what goes on, what is run again, what is refused.

Shape legend: B rows, T tokens.
"""

from __future__ import annotations

import logging
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from exporter.hf_models.refusals import GenerateError
from runtime_shims.contract.errors import CapacityExceeded, UserInputError
from tests.parity.bundle_models import PAD, as_model, inputs_of, padded
from tests.parity.programs import GEMMA, LLAMA_PORTABLE, T5, Lowered, on
from tests.support.tiny_models import tokens


@on(GEMMA)
@pytest.mark.parametrize("drafts", [None, 3])
def test_a_row_ends_where_its_positions_end(
    lowered: Lowered, drafts: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    most = lowered.session.limits.max_dec
    inputs = {"input_ids": tokens(1, most - 6, seed=5)}
    with caplog.at_level(logging.WARNING, logger="exporter"):
        answer = as_model(lowered).generate(**inputs, max_new_tokens=20, prompt_lookup_num_tokens=drafts)
    assert answer.shape[1] == most + 1
    assert torch.equal(answer, lowered.stock.model.generate(**inputs, max_new_tokens=7))
    assert [record.getMessage() for record in caplog.records] == [
        f"row 0 ended: its {most} decoder positions are full; export with a larger --max-dec"
    ]


@on(GEMMA)
def test_a_shorter_row_goes_on_where_a_longer_one_is_full(lowered: Lowered) -> None:
    most = lowered.session.limits.max_dec
    inputs = padded((most - 3, most - 20), is_left=True, seed=6)
    answer = as_model(lowered).generate(**inputs, max_new_tokens=12, pad_token_id=PAD)
    stock = lowered.stock.model.generate(**inputs, max_new_tokens=12, pad_token_id=PAD)
    assert torch.equal(answer[1], stock[1])
    assert torch.equal(answer[0, : most - 3 + 4], stock[0, : most - 3 + 4])
    assert answer[0, most - 3 + 4 :].eq(PAD).all()


@on(LLAMA_PORTABLE)
def test_a_conversation_goes_on_in_its_cache(lowered: Lowered, monkeypatch: pytest.MonkeyPatch) -> None:
    model = as_model(lowered)
    first = model.generate(tokens(1, 6), max_new_tokens=5, return_dict_in_generate=True)
    whole = torch.cat([first.sequences, tokens(1, 3, seed=2)], dim=1)
    fed: list[int] = []
    feed = lowered.session.feed
    monkeypatch.setattr(lowered.session, "feed", lambda rows: (fed.append(len(rows[0])), feed(rows))[1])
    answer = model.generate(whole, cache=first.cache, max_new_tokens=8)
    assert fed == [3]  # the last token of the answer and two of the three behind it; the third one is a step
    assert torch.equal(answer, lowered.stock.model.generate(whole, max_new_tokens=8))


@on(T5)
def test_a_conversation_with_an_encoder_goes_on_in_its_cache(lowered: Lowered) -> None:
    """Stock transformers writes the whole text once more where it comes without a mask."""
    model, inputs = as_model(lowered), inputs_of(lowered, (5,))
    whole = model.generate(**inputs, max_new_tokens=12)
    first = model.generate(**inputs, max_new_tokens=5, return_dict_in_generate=True)
    options = {"decoder_input_ids": first.sequences, "cache": first.cache, "max_new_tokens": 7}
    assert torch.equal(model.generate(**inputs, **options), whole)
    assert first.cache.get_seq_length() == whole.shape[1] - 1


@on(LLAMA_PORTABLE)
def test_a_text_that_does_not_go_on_from_the_cache_is_refused(lowered: Lowered) -> None:
    model, text = as_model(lowered), tokens(1, 6)
    cache = model.generate(text, max_new_tokens=2, return_dict_in_generate=True).cache
    held = cache.get_seq_length()
    for other in (tokens(1, 12, seed=9), text, text[:, :2]):
        with pytest.raises(UserInputError, match=f"cache holds {held} tokens that the text of {other.shape[1]} does"):
            model.generate(other, cache=cache, max_new_tokens=2)
    whole = torch.cat([text, tokens(1, 9, seed=3)], dim=1)
    with pytest.raises(GenerateError, match="drafts come with the whole text; leave cache out"):
        model.generate(whole, cache=cache, prompt_lookup_num_tokens=2)
    fresh = tokens(1, 3, seed=2)
    mask = torch.ones(1, held + 3, dtype=torch.int64)  # of everything, while the tokens are the new ones
    answer = model.generate(fresh, attention_mask=mask, cache=cache, max_new_tokens=4)
    assert answer.shape[1] == 3 + 4


@on(LLAMA_PORTABLE)
def test_chunks_of_a_prompt_may_be_padding(lowered: Lowered) -> None:
    inputs = inputs_of(lowered)
    found = as_model(lowered).generate(**inputs, pad_token_id=PAD, max_new_tokens=6, prefill_chunk_size=2)
    assert torch.equal(found, lowered.stock.model.generate(**inputs, pad_token_id=PAD, max_new_tokens=6))


@on(LLAMA_PORTABLE, T5)
def test_a_mask_of_another_shape_is_refused(lowered: Lowered) -> None:
    model, inputs = as_model(lowered), inputs_of(lowered, (4, 2))
    for mask in (inputs["attention_mask"][:, 1:], inputs["attention_mask"][:1], torch.eye(2, 5, dtype=torch.int64)):
        shape = re.escape(str(tuple(mask.shape)))
        with pytest.raises(UserInputError, match=rf"mask has shape {shape} for an input of shape \(2, 4\); give one"):
            model.generate(inputs["input_ids"], attention_mask=0 * mask, max_new_tokens=2)


@on(LLAMA_PORTABLE, T5)
def test_a_request_that_another_one_displaced_is_run_again(lowered: Lowered) -> None:
    model = as_model(lowered)
    name = "decoder_input_ids" if model.config.is_encoder_decoder else "input_ids"
    inputs = inputs_of(lowered, (4, 4)) if model.config.is_encoder_decoder else {}
    text = tokens(2, 6, seed=3)
    first = model(**inputs, **{name: text[:, :5]})
    model(**{**inputs, name: text + 1})
    first.cache.crop(-2)  # nothing to roll back: it runs again from what is left of it
    found = model(**{name: text[:, 3:]}, cache=first.cache).logits[:, -1]
    wanted = model(**inputs, **{name: text}).logits[:, -1]
    torch.testing.assert_close(found, wanted, atol=1e-4, rtol=0)


@on(GEMMA)
def test_what_does_not_fit_is_refused_before_anything_is_written(lowered: Lowered) -> None:
    model, most = as_model(lowered), lowered.session.limits.max_dec
    text = tokens(1, most, seed=8)
    with pytest.raises(CapacityExceeded, match=f"has {most + 1} tokens, the decoder holds at most {most}"):
        model(torch.cat([text, text[:, :1]], dim=1))
    cache = model(text[:, :-2]).cache
    with pytest.raises(CapacityExceeded, match="holds 118 tokens and cannot take 3 more"):
        model(text[:, :3], cache=cache)
    with pytest.raises(UserInputError, match="2 rows of tokens for a request of 1 rows"):
        model(tokens(2, 1), cache=cache)
    found, wanted = model(text[:, -2:], cache=cache).logits, model(text).logits[:, -2:]
    torch.testing.assert_close(found, wanted, atol=1e-3, rtol=0)


@on(LLAMA_PORTABLE)
def test_a_batch_that_is_too_large_is_refused_in_one_line(lowered: Lowered) -> None:
    most = lowered.session.limits.max_batch
    with pytest.raises(CapacityExceeded, match=f"at most {most} rows at once; .*--max-batch"):
        as_model(lowered).generate(tokens(most + 1, 3), max_new_tokens=2)


@on(LLAMA_PORTABLE)
def test_a_cache_of_several_rows_or_of_another_model_is_refused(lowered: Lowered) -> None:
    model, other = as_model(lowered), as_model(lowered)
    cache = model.generate(tokens(2, 3), max_new_tokens=2, return_dict_in_generate=True).cache
    with pytest.raises(GenerateError, match="cache holds 2 rows"):
        model.generate(tokens(2, 8), cache=cache)
    with pytest.raises(GenerateError, match="cache is a RequestCache: give one that this model's"):
        other.generate(tokens(2, 8), cache=cache)
    with pytest.raises(GenerateError, match="cache is a RequestCache: give one that this model's"):
        other(tokens(2, 1), cache=cache)


@on(LLAMA_PORTABLE)
def test_threads_take_turns(lowered: Lowered) -> None:
    model, texts = as_model(lowered), [tokens(1, 6, seed) for seed in range(4)]
    alone = [model.generate(text, max_new_tokens=20) for text in texts]
    with ThreadPoolExecutor(len(texts)) as threads:
        together = list(threads.map(lambda text: model.generate(text, max_new_tokens=20), 3 * texts))
        steps = list(threads.map(lambda text: model(text).logits, 3 * texts))
    assert all(map(torch.equal, together, 3 * alone))
    for found, text in zip(steps, 3 * texts, strict=True):
        torch.testing.assert_close(found, model(text).logits, atol=0, rtol=0)
