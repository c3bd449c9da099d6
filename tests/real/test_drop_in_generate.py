"""Drop-in caches with real weights: Gemma 3 past two windows with drafts, Whisper over batches of three sizes.

And one run of generated code: `torch.compile` with its default backend, on a tiny model, needs a C++ compiler and time.
"""

from __future__ import annotations

import copy
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForSpeechSeq2Seq, AutoProcessor, Gemma3ForCausalLM, PreTrainedModel

from exporter.hf import FixedCapacityCache, fixed_capacity_cache
from runtime_shims.reference.audio import AudioCut, read_mono
from tests.real.conftest import GgufModel
from tests.real.oracle import JudgedOnce, eager_threads, first_difference
from tests.real.summary import Summary
from tests.support import tiny_models
from tests.support.drop_in import answer, check_equal, pointers, spoil
from tests.support.real import real_weights

pytestmark = pytest.mark.real

PROMPT = "In the spring of 1847, the surveyor Thomas Aldridge left the harbour of Bristol with"
NEW_TOKENS = 1200
LEFT_OUT = 9
"""The layer that the assistant goes without: it then agrees with Gemma about every second time."""


@dataclass(frozen=True)
class Gemma:
    """The model, an assistant of its own layers but one, the prompt int64[1, T], and one cache for all runs."""

    model: PreTrainedModel
    assistant: PreTrainedModel
    prompt: torch.Tensor
    cache: FixedCapacityCache


@pytest.fixture(scope="module")
def gemma(gemma3: GgufModel) -> Gemma:
    model, tokenizer = gemma3
    prompt = tokenizer(PROMPT, return_tensors="pt").input_ids
    cache = fixed_capacity_cache(model, max_batch=1, max_dec=prompt.shape[1] + NEW_TOKENS, max_draft=8)
    spoil(cache)
    return Gemma(model, without_a_layer(model), prompt, cache)


def without_a_layer(model: PreTrainedModel) -> PreTrainedModel:
    """Gemma less one layer, over the same weights."""
    kept = [index for index in range(model.config.num_hidden_layers) if index != LEFT_OUT]
    config = copy.deepcopy(model.config)
    config.num_hidden_layers, config.layer_types = len(kept), [config.layer_types[index] for index in kept]
    with torch.device("meta"):
        smaller = Gemma3ForCausalLM(config)
    shared = {id(parameter): parameter for parameter in model.parameters()}
    for place, index in enumerate(kept):
        smaller.model.layers[place] = copy.deepcopy(model.model.layers[index], shared)
        smaller.model.layers[place].self_attn.layer_idx = place
    for name in ("embed_tokens", "norm", "rotary_emb"):
        setattr(smaller.model, name, getattr(model.model, name))
    smaller.lm_head = model.lm_head
    smaller.generation_config = copy.deepcopy(model.generation_config)
    smaller.generation_config.num_assistant_tokens = 3
    return smaller.eval()


@pytest.mark.parametrize("drafts", [pytest.param("assistant", marks=pytest.mark.large), "prompt lookup"])
def test_drafts_past_two_windows_change_no_token_of_gemma(
    drafts: str, gemma: Gemma, gemma3_judge: JudgedOnce, probe_P: torch.Tensor, summary: Summary
) -> None:
    placed = pointers(gemma.cache)
    steps: list[int] = []
    handle = gemma.model.register_forward_hook(lambda *_: steps.append(1))
    settings: dict[str, Any] = {"max_new_tokens": NEW_TOKENS, "do_sample": False, "eos_token_id": None}
    settings |= {"prompt_lookup_num_tokens": 8} if drafts == "prompt lookup" else {"assistant_model": gemma.assistant}
    with eager_threads():
        tokens = gemma.model.generate(gemma.prompt, cache=gemma.cache, **settings)[0].tolist()
    handle.remove()
    length = gemma.prompt.shape[1]
    assert len(tokens) == length + NEW_TOKENS
    judgement = gemma3_judge(tokens, length, probe_P)
    assert first_difference(judgement.best.tolist(), tokens[length:]) is None
    assert len(steps) < 0.75 * NEW_TOKENS
    assert pointers(gemma.cache) == placed
    summary.add("gemma3", "drop-in", f"{drafts}: {NEW_TOKENS} tokens in {len(steps)} steps, all greedy")


def test_whisper_transcribes_batches_of_three_sizes_without_allocating_anew(
    weights_cache: Path, summary: Summary
) -> None:
    checkpoint = real_weights().whisper_tiny_en_checkpoint(weights_cache)
    processor = AutoProcessor.from_pretrained(checkpoint)
    model = AutoModelForSpeechSeq2Seq.from_pretrained(checkpoint, dtype=torch.float32).eval()
    beckett, cities = real_weights().speech_wavs()
    cuts = ((beckett, 0.0), (cities, 0.0), (cities, 20.0))
    samples = [read_mono(path, AudioCut(start, 20.0), 16_000) for path, start in cuts]
    features = processor(samples, sampling_rate=16_000, return_tensors="pt").input_features
    cache = fixed_capacity_cache(model, max_batch=3, max_enc=1500, max_dec=448)
    spoil(cache)
    placed = pointers(cache)
    with eager_threads():
        expected = [model.generate(row[None], do_sample=False, num_beams=1)[0] for row in features]
        for rows in ([0], [0, 1, 2], [2, 1]):
            given = model.generate(features[rows], do_sample=False, num_beams=1, cache=cache)
            texts = [processor.decode(tokens, skip_special_tokens=True) for tokens in given]
            assert texts == [processor.decode(expected[row], skip_special_tokens=True) for row in rows]
            assert pointers(cache) == placed
    summary.add("whisper", "drop-in", "batches of 1, 3 and 2: all texts equal, nothing allocated anew")


@pytest.mark.skipif(shutil.which("c++") is None, reason="torch.compile generates C++")
def test_generated_code_gives_the_same(summary: Summary) -> None:
    torch._dynamo.reset()
    eager, model = tiny_models.build("mistral"), tiny_models.build("mistral")
    cache = fixed_capacity_cache(model, max_batch=2, max_dec=64, max_draft=4)
    spoil(cache)
    model.forward = torch.compile(model.forward)
    prompt = tiny_models.tokens(2, 13)
    check_equal(answer(model, prompt, cache), answer(eager, prompt))
    summary.add("tiny mistral", "drop-in", "compiled by inductor: equal")
