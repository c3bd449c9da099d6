"""Whisper tiny.en: two recordings in one batch, against stock `generate` of each recording alone.

The second recording has 48,000 samples per second; the runtime's audio code resamples it for both sides.
Stock `generate` returns the tokens between the prompt and end-of-sequence, a session that one too.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForSpeechSeq2Seq, AutoProcessor

from exporter.bundle.tolerances import features_tolerance
from runtime_shims.contract.manifest import Speech
from runtime_shims.contract.pieces import read_pieces
from runtime_shims.reference.audio import AudioCut, Waveforms, load_speech_features, read_mono
from runtime_shims.reference.generation import generate
from runtime_shims.reference.loading import open_session
from runtime_shims.reference.session import Session
from tests.real.exports import FORMS, Exports, backend_of, script
from tests.real.oracle import eager_threads
from tests.real.summary import Summary
from tests.support.real import real_weights
from tests.support.shared import THREADS

pytestmark = pytest.mark.real

SECONDS = 20.0
BECKETT = " Ever tried, ever failed. No matter, try again. Fail again. Fail better."
DICKENS = (
    " It was the best of times, it was the worst of times. It was the age of wisdom, it was the age of "
    "foolishness. It was the epoch of belief, it was the epoch of incredulity."
)


@dataclass(frozen=True)
class StockAnswer:
    """Features float32 [1, 80, 3000] of a recording, and what stock `generate` makes of them."""

    features: Tensor
    tokens: list[int]
    text: str


@pytest.fixture(scope="module")
def recordings() -> tuple[Path, ...]:
    return real_weights().speech_wavs()


@pytest.fixture(scope="module")
def stock_answers(weights_cache: Path, recordings: tuple[Path, ...]) -> list[StockAnswer]:
    checkpoint = real_weights().whisper_tiny_en_checkpoint(weights_cache)
    processor = AutoProcessor.from_pretrained(checkpoint)
    model = AutoModelForSpeechSeq2Seq.from_pretrained(checkpoint, dtype=torch.float32).eval()
    answers = []
    for path in recordings:
        samples = read_mono(path, AudioCut(0.0, SECONDS), 16_000)
        features = processor(samples, sampling_rate=16_000, return_tensors="pt").input_features
        with eager_threads():
            tokens = model.generate(features, do_sample=False, num_beams=1)[0]
        text = processor.decode(tokens, skip_special_tokens=True)
        answers.append(StockAnswer(features, tokens.tolist(), text))
    return answers


def check_answers(session: Session, features: Tensor, stock_answers: list[StockAnswer]) -> None:
    """All rows in one batch end as transformers' runs of one row do, and with the same tokens."""
    rules = session.manifest.tokens
    generations = generate(session, [rules.start] * len(stock_answers), features)
    expected = [[*answer.tokens, *rules.eos] for answer in stock_answers]
    assert [list(generation.tokens) for generation in generations] == expected
    assert {generation.stop_reason for generation in generations} == {"eos"}


@pytest.mark.parametrize("form", FORMS)
def test_two_recordings_in_one_batch_equal_two_stock_runs(
    form: str,
    exports: Exports,
    recordings: tuple[Path, ...],
    stock_answers: list[StockAnswer],
    summary: Summary,
) -> None:
    bundle = exports.bundle("whisper", form)
    extractor = load_speech_features(bundle)
    features = torch.cat([extractor.of_file(path, AudioCut(0.0, SECONDS)) for path in recordings])
    assert torch.equal(features, torch.cat([answer.features for answer in stock_answers]))
    check_answers(open_session(bundle, threads=THREADS), features, stock_answers)
    lengths = [len(answer.tokens) + 1 for answer in stock_answers]
    summary.add("whisper", form, f"{lengths} tokens equal in one batch")


@pytest.mark.parametrize("form", FORMS)
def test_the_bundle_s_own_features_give_the_same_tokens(
    form: str,
    exports: Exports,
    recordings: tuple[Path, ...],
    stock_answers: list[StockAnswer],
    summary: Summary,
) -> None:
    bundle = exports.bundle("whisper", form)
    session, speech = open_session(bundle, threads=THREADS), bundle.manifest.speech
    assert speech == Speech(sampling_rate=16_000, samples=480_000, positions=None)
    sound = Waveforms(speech)
    features = session.features(torch.cat([sound.of_file(path, AudioCut(0.0, SECONDS)) for path in recordings]))
    wanted = torch.cat([answer.features for answer in stock_answers])
    difference = float((features - wanted).abs().max())
    assert difference <= features_tolerance(backend_of(form)).absolute(float(wanted.abs().max()))
    check_answers(session, features, stock_answers)
    summary.add("whisper", form, f"features within {difference:.1e} of the extractor's")


@pytest.mark.parametrize("form", FORMS)
def test_the_bundle_s_pieces_give_the_same_text(
    form: str, exports: Exports, stock_answers: list[StockAnswer]
) -> None:
    pieces = read_pieces(exports.bundle("whisper", form))
    assert pieces is not None
    for answer in stock_answers:
        assert pieces.decode(answer.tokens).decode() == answer.text


@pytest.mark.parametrize("form", FORMS)
def test_the_command_line_prints_the_same_text_for_both_files(
    form: str, exports: Exports, recordings: tuple[Path, ...], stock_answers: list[StockAnswer]
) -> None:
    bundle = exports.bundle("whisper", form)
    files = [argument for path in recordings for argument in ("--audio", str(path))]
    command = [
        script("run-model"),
        "generate",
        str(bundle.root),
        *files,
        "--audio-seconds",
        f"{SECONDS:g}",
        "--json",
    ]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    generations = json.loads(printed)["generations"]
    assert [answer["text"] for answer in generations] == [answer.text for answer in stock_answers]
    assert [answer["tokens"] for answer in generations] == [
        [*answer.tokens, *bundle.manifest.tokens.eos] for answer in stock_answers
    ]


def test_the_text_is_what_is_spoken(stock_answers: list[StockAnswer]) -> None:
    assert stock_answers[0].text == BECKETT
    assert stock_answers[1].text.startswith(DICKENS)
