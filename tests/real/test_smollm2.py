"""SmolLM2-135M-Instruct: four chats of different lengths in one batch, against four stock runs of one row."""

from __future__ import annotations

import pytest
import torch
from transformers import PreTrainedTokenizerBase

from runtime_shims.reference.generation import generate
from runtime_shims.reference.loading import open_session
from tests.real.conftest import GgufModel
from tests.real.exports import Exports
from tests.real.oracle import eager_threads
from tests.real.summary import Summary
from tests.support.shared import THREADS

pytestmark = pytest.mark.real

NEW_TOKENS = 48
QUESTIONS = (
    "Hi!",
    "What is the capital of France?",
    "Explain in three sentences why the sky is blue and why sunsets are red.",
    "I have two apples, three oranges and a melon. My neighbour brings four more apples, takes one of the "
    "oranges and cuts the melon into eight slices, of which we eat half. List everything that is left on the "
    "table, one item per line, and then tell me how many pieces of fruit that makes in total.",
)


def chat(tokenizer: PreTrainedTokenizerBase, question: str) -> list[int]:
    """Token ids of a one-turn conversation, ready for the answer."""
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": question}], add_generation_prompt=True, tokenize=False
    )
    return tokenizer(text, add_special_tokens=False).input_ids


@pytest.fixture(scope="module")
def prompts(smollm2: GgufModel) -> list[list[int]]:
    return [chat(smollm2[1], question) for question in QUESTIONS]


@pytest.fixture(scope="module")
def stock_answers(smollm2: GgufModel, prompts: list[list[int]]) -> list[list[int]]:
    """New tokens of each prompt run alone by `generate`."""
    model, answers = smollm2[0], []
    with eager_threads():
        for prompt in prompts:
            ids = torch.tensor([prompt])
            generated = model.generate(
                ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=NEW_TOKENS
            )
            answers.append(generated[0, len(prompt) :].tolist())
    return answers


@pytest.mark.parametrize("form", ["fused", pytest.param("portable", marks=pytest.mark.large), "onnx"])
def test_four_chats_in_one_batch_equal_four_stock_runs(
    form: str,
    exports: Exports,
    prompts: list[list[int]],
    stock_answers: list[list[int]],
    summary: Summary,
) -> None:
    lengths = [len(prompt) for prompt in prompts]
    assert len(set(lengths)) == 4
    session = open_session(exports.bundle("smollm2", form), threads=THREADS)
    generations = generate(session, prompts, max_new_tokens=NEW_TOKENS)
    assert [list(generation.tokens) for generation in generations] == stock_answers
    counts = [len(answer) for answer in stock_answers]
    summary.add("smollm2", form, f"prompts of {lengths} tokens, {counts} new tokens equal")


def test_the_answers_end_at_different_lengths_and_say_something(
    smollm2: GgufModel, stock_answers: list[list[int]]
) -> None:
    assert len({len(answer) for answer in stock_answers}) >= 2
    assert "Paris" in smollm2[1].decode(stock_answers[1])
