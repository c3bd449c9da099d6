"""`generate` over a program gives what stock `generate` gives: greedy and drawn, with processors, in padded batches.

Shape legend: B rows, T tokens, E encoder positions.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import (
    LogitsProcessor,
    LogitsProcessorList,
    PreTrainedModel,
    StoppingCriteria,
    StoppingCriteriaList,
)
from transformers.generation.streamers import BaseStreamer

from exporter.bundle.tolerances import TOLERANCES
from exporter.hf_models.model import FixedCapacityModel
from tests.parity.bundle_models import LENGTHS, PAD, as_model, inputs_of, padded
from tests.parity.programs import GEMMA, LLAMA_ONNX, LLAMA_PORTABLE, T5, T5_ONNX, WHISPER, Lowered, on
from tests.support.tiny_models import tokens


def both(lowered: Lowered, inputs: dict[str, Tensor], **options: Any) -> tuple[Any, Any]:
    """The answers of the program and of the stock model, from the same random numbers."""
    models: tuple[FixedCapacityModel, PreTrainedModel] = as_model(lowered), lowered.stock.model
    answers = []
    for model in models:
        torch.manual_seed(0)
        answers.append(model.generate(**inputs, pad_token_id=PAD, **options))
    return answers[0], answers[1]


@on(LLAMA_PORTABLE, LLAMA_ONNX, GEMMA, T5, T5_ONNX)
def test_a_padded_batch_gives_the_stock_model_s_tokens(lowered: Lowered) -> None:
    ours, stock = both(lowered, inputs_of(lowered), max_new_tokens=40)
    assert ours.dtype == torch.int64
    assert torch.equal(ours, stock)


SETTINGS: dict[str, dict[str, Any]] = {
    "drawn": {"do_sample": True, "top_k": 8, "top_p": 0.9, "temperature": 1.5, "num_return_sequences": 2},
    "penalties": {"repetition_penalty": 1.4, "no_repeat_ngram_size": 2, "min_new_tokens": 20},
    "filters": {"do_sample": True, "min_p": 0.02, "typical_p": 0.9, "epsilon_cutoff": 1e-3},
    "bans": {"bad_words_ids": [[7], [9, 11]], "suppress_tokens": [12, 13], "sequence_bias": [[[14], 3.0]]},
}


@on(LLAMA_PORTABLE, T5)
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_settings_mean_what_they_mean_in_transformers(lowered: Lowered, settings: dict[str, Any]) -> None:
    ours, stock = both(lowered, inputs_of(lowered), max_new_tokens=24, **settings)
    assert torch.equal(ours, stock)
    plain, _ = both(lowered, inputs_of(lowered), max_new_tokens=24)
    assert ours.shape != plain.shape or not torch.equal(ours, plain)  # the settings do something


class Never(LogitsProcessor):
    """Forbids even tokens."""

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        changed = scores.clone()
        changed[:, ::2] = -torch.inf
        return changed


class EndsWith(StoppingCriteria):
    """Ends the rows whose last token is divisible by five."""

    def __call__(self, input_ids: Tensor, scores: Any, **kwargs: Any) -> Tensor:
        return input_ids[:, -1] % 5 == 0


class Recorder(BaseStreamer):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[list[int]] = []
        self.ended = False

    def put(self, value: Tensor) -> None:
        self.told.append(value.flatten().tolist())

    def end(self) -> None:
        self.ended = True


@on(LLAMA_PORTABLE, T5)
def test_processors_and_criteria_of_the_user_s_own_are_asked(lowered: Lowered) -> None:
    own = {
        "logits_processor": LogitsProcessorList([Never()]),
        "stopping_criteria": StoppingCriteriaList([EndsWith()]),
        "max_new_tokens": 30,
    }
    ours, stock = both(lowered, inputs_of(lowered), **own)
    assert torch.equal(ours, stock)
    first_new = 1 if lowered.bundle.manifest.kind == "text_seq2seq" else max(LENGTHS)
    assert (ours[:, first_new] % 2 == 1).all()


@on(LLAMA_PORTABLE)
def test_a_streamer_is_told_the_prompt_and_every_token(lowered: Lowered) -> None:
    recorder = Recorder()
    inputs = inputs_of(lowered, (4,))
    answer = as_model(lowered).generate(**inputs, max_new_tokens=6, streamer=recorder)
    assert recorder.told == [inputs["input_ids"][0].tolist(), *[[token] for token in answer[0, 4:].tolist()]]
    assert recorder.ended


@on(LLAMA_PORTABLE, T5)
def test_logits_and_scores_are_returned_where_they_are_asked_for(lowered: Lowered) -> None:
    ours, stock = both(
        lowered,
        inputs_of(lowered, (3, 3)),
        max_new_tokens=5,
        return_dict_in_generate=True,
        output_logits=True,
        output_scores=True,
    )
    assert torch.equal(ours.sequences, stock.sequences)
    allowed = TOLERANCES["float32", lowered.program_case.backend]
    for mine, theirs in zip((*ours.logits, *ours.scores), (*stock.logits, *stock.scores), strict=True):
        torch.testing.assert_close(mine, theirs, atol=allowed.absolute(float(theirs.abs().max())), rtol=0)


@on(LLAMA_PORTABLE, GEMMA)
def test_a_forward_pass_gives_the_logits_of_all_tokens_or_the_last_ones(lowered: Lowered) -> None:
    inputs = padded((13, 6), is_left=True)
    real = inputs["attention_mask"].bool()
    model, allowed = as_model(lowered), TOLERANCES["float32", lowered.program_case.backend]
    found = model(**inputs).logits
    for row in range(2):
        wanted = lowered.stock.logits_TV(inputs["input_ids"][row][real[row]].tolist())
        absolute = allowed.absolute(float(wanted.abs().max()))
        torch.testing.assert_close(found[row][real[row]], wanted, atol=absolute, rtol=0)
        for keep in (1, 2, 6):
            last = model(**inputs, logits_to_keep=keep).logits
            torch.testing.assert_close(last[row], wanted[-keep:], atol=absolute, rtol=0)


@on(WHISPER)
def test_a_batch_of_sound_gives_the_stock_model_s_tokens(lowered: Lowered) -> None:
    shape = lowered.session.limits.source_shape
    assert shape is not None
    features = torch.randn(3, *shape, generator=torch.Generator().manual_seed(1))
    models = as_model(lowered), lowered.stock.model
    ours, stock = [model.generate(features, max_new_tokens=30) for model in models]
    assert torch.equal(ours, stock)


@on(LLAMA_PORTABLE, GEMMA)
def test_prompt_lookup_gives_greedy_s_tokens_in_fewer_steps(
    lowered: Lowered, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, session = as_model(lowered), lowered.session
    steps = []
    step = session.step
    monkeypatch.setattr(session, "step", lambda rows: (steps.append(max(map(len, rows))), step(rows))[1])
    inputs = {"input_ids": torch.tensor([[7, 8, 9, 10, 11] * 4])}
    settings = {"max_new_tokens": 50, "sequence_bias": [[[one, two], 30.0] for one, two in REPEATED]}
    plain = model.generate(**inputs, **settings)
    plain_steps = len(steps)
    steps.clear()
    drafted = model.generate(**inputs, **settings, prompt_lookup_num_tokens=session.limits.max_draft)
    assert torch.equal(drafted, plain)
    assert torch.equal(drafted, lowered.stock.model.generate(**inputs, **settings))
    assert len(steps) < 0.5 * plain_steps
    assert max(steps) == session.limits.max_draft + 1


REPEATED = ((7, 8), (8, 9), (9, 10), (10, 11), (11, 7))
"""Pairs of tokens that the settings above make likely, so that there is something to look up."""


@on(GEMMA)
def test_drafts_that_are_wrong_are_taken_back(lowered: Lowered) -> None:
    inputs = {"input_ids": tokens(1, 30, seed=4)}
    drafts = lowered.session.limits.max_draft
    drafted = as_model(lowered).generate(**inputs, max_new_tokens=80, prompt_lookup_num_tokens=drafts)
    assert torch.equal(drafted, lowered.stock.model.generate(**inputs, max_new_tokens=80))
