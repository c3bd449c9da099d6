"""Weights from installed packages load in stock transformers and say what they should."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import soundfile
import torch
from transformers import AutoModelForSpeechSeq2Seq, AutoProcessor, PreTrainedModel, PreTrainedTokenizerBase

from tests.real.conftest import GgufModel
from tests.support.real import EXAMPLES, real_weights

pytestmark = pytest.mark.real


def _continue(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, inputs: dict, count: int) -> str:
    generated = model.generate(**inputs, max_new_tokens=count, do_sample=False)
    return tokenizer.decode(generated[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)


def test_smollm2_answers_in_its_chat_template(smollm2: GgufModel) -> None:
    model, tokenizer = smollm2
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    inputs = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    assert _continue(model, tokenizer, inputs, 24) == "The capital of France is Paris."


def test_gemma3_parts_are_joined_once(weights_cache: Path) -> None:
    path = real_weights().gemma3_270m_gguf(weights_cache)
    joined = path.stat().st_mtime_ns
    assert real_weights().gemma3_270m_gguf(weights_cache) == path
    assert path.stat().st_mtime_ns == joined


def test_gemma3_continues_in_fluent_english(gemma3: GgufModel) -> None:
    model, tokenizer = gemma3
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert model.config.layer_types.count("full_attention") == 3
    text = _continue(model, tokenizer, tokenizer("The capital of France is", return_tensors="pt"), 24)
    assert "It is the largest city in France and the second largest city in Europe." in text


def test_whisper_transcribes_speech_with_stock_generate(weights_cache: Path) -> None:
    checkpoint = real_weights().whisper_tiny_en_checkpoint(weights_cache)
    beckett, _ = real_weights().speech_wavs()
    samples, rate = soundfile.read(beckett)
    processor = AutoProcessor.from_pretrained(checkpoint)
    model = AutoModelForSpeechSeq2Seq.from_pretrained(checkpoint).eval()
    assert model.dtype == torch.float32
    features = processor(samples, sampling_rate=rate, return_tensors="pt").input_features
    text = processor.batch_decode(model.generate(features), skip_special_tokens=True)[0]
    assert text == " Ever tried, ever failed. No matter, try again. Fail again. Fail better."


def test_both_speech_files_have_the_rates_that_resampling_needs() -> None:
    rates = [soundfile.info(path).samplerate for path in real_weights().speech_wavs()]
    assert rates == [16_000, 48_000]


def test_the_command_line_prints_only_the_path() -> None:
    command = [sys.executable, str(EXAMPLES / "real_weights.py"), "smollm2"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert printed == f"{real_weights().smollm2_gguf()}\n"
