"""Speech pipelines over Whisper tiny.en's bundle say what the stock pipeline says, to the letter and the timestamp."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from numpy.typing import NDArray
from transformers import AutoFeatureExtractor, AutoModelForSpeechSeq2Seq, AutoTokenizer, Pipeline
from transformers import pipeline as stock_pipeline

from exporter.hf import FixedCapacityModelForSpeechSeq2Seq, pipeline
from runtime_shims.reference.audio import AudioCut, read_mono
from tests.real.exports import Exports
from tests.real.summary import Summary
from tests.real.test_whisper import BECKETT, SECONDS
from tests.support.real import EXAMPLES, real_weights
from tests.support.shared import THREADS

pytestmark = pytest.mark.real

TASK = "automatic-speech-recognition"
RATE = 16_000
GREEDY = {"num_beams": 1}  # the stock pipeline has five beams by default


@pytest.fixture(scope="module")
def checkpoint(weights_cache: Path) -> Path:
    return real_weights().whisper_tiny_en_checkpoint(weights_cache)


@pytest.fixture(scope="module")
def sounds() -> list[NDArray[Any]]:
    """The first 20 seconds of both recordings, and all 44 of the second one."""
    first, second = real_weights().speech_wavs()
    cuts = ((first, SECONDS), (second, SECONDS), (second, None))
    return [read_mono(path, AudioCut(0.0, seconds), RATE) for path, seconds in cuts]


@pytest.fixture(scope="module")
def stock(checkpoint: Path) -> Stock:
    model = AutoModelForSpeechSeq2Seq.from_pretrained(checkpoint, dtype=torch.float32).eval()
    parts = {
        "tokenizer": AutoTokenizer.from_pretrained(checkpoint),
        "feature_extractor": AutoFeatureExtractor.from_pretrained(checkpoint),
    }
    return Stock(stock_pipeline(TASK, model=model, device="cpu", **parts))


@pytest.fixture(scope="module", params=["fused", "onnx"])
def ours(request: pytest.FixtureRequest, exports: Exports) -> Pipeline:
    bundle = exports.bundle("whisper", request.param)
    return pipeline(TASK, FixedCapacityModelForSpeechSeq2Seq.from_pretrained(bundle.root, threads=THREADS))


def as_input(sound: NDArray[Any]) -> dict[str, Any]:
    """What a speech pipeline takes; it changes what it is given."""
    return {"raw": sound.copy(), "sampling_rate": RATE}


class Stock:
    """The stock pipeline; it answers a question once for all forms of the bundle."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._answers: dict[str, Any] = {}

    def answer(self, sounds: list[NDArray[Any]], **options: Any) -> Any:
        key = repr(([len(sound) for sound in sounds], options))
        if key not in self._answers:
            torch.manual_seed(0)
            self._answers[key] = self._pipeline([as_input(sound) for sound in sounds], **options)
        return self._answers[key]


def check_same(ours: Pipeline, stock: Stock, sounds: list[NDArray[Any]], **options: Any) -> Any:
    """Both answer alike, from the same random numbers; the answer."""
    options = {"generate_kwargs": GREEDY, **options}
    torch.manual_seed(0)
    answer = ours([as_input(sound) for sound in sounds], **options)
    assert answer == stock.answer(sounds, **options)
    return answer


def test_two_recordings_in_one_batch_give_the_stock_pipeline_s_texts(
    ours: Pipeline, stock: Stock, sounds: list[NDArray[Any]], summary: Summary
) -> None:
    answer = check_same(ours, stock, sounds[:2], batch_size=2)
    assert answer[0]["text"] == BECKETT
    form = ours.model.manifest.programs[0].attention
    summary.add("whisper", "fused" if form == "fused" else "onnx", "pipelines give the stock ones' texts")


def test_files_of_any_rate_are_read_without_ffmpeg(ours: Pipeline) -> None:
    answers = ours([str(path) for path in real_weights().speech_wavs()], return_timestamps=True)
    assert answers[0]["text"] == BECKETT
    assert answers[1]["text"].startswith(" It was the best of times, it was the worst of times.")


def test_timestamps_of_sentences_are_the_stock_pipeline_s(
    ours: Pipeline, stock: Stock, sounds: list[NDArray[Any]]
) -> None:
    answer = check_same(ours, stock, sounds[:1], return_timestamps=True)
    assert answer[0]["chunks"][0]["timestamp"][0] == 0.0


def test_sound_that_is_longer_than_the_program_hears_is_heard_window_by_window(
    ours: Pipeline, stock: Stock, sounds: list[NDArray[Any]]
) -> None:
    (answer,) = check_same(ours, stock, sounds[2:], return_timestamps=True)
    assert answer["chunks"][-1]["timestamp"][1] > 40


def test_chunks_of_a_long_sound_run_in_batches(
    ours: Pipeline, stock: Stock, sounds: list[NDArray[Any]]
) -> None:
    check_same(ours, stock, sounds[2:], chunk_length_s=15, batch_size=2, ignore_warning=True)


def test_a_temperature_ladder_with_a_look_for_speech_is_the_stock_one(
    ours: Pipeline, stock: Stock, sounds: list[NDArray[Any]]
) -> None:
    """To look for speech the program runs another request in between; thresholds send every window up the ladder."""
    ladder = {
        **{"temperature": (0.0, 0.2), "compression_ratio_threshold": 1.35, "logprob_threshold": -1.0},
        **{"no_speech_threshold": 0.6, "condition_on_prev_tokens": True, "num_beams": 1},
    }
    check_same(ours, stock, sounds[2:], return_timestamps=True, generate_kwargs=ladder)


def test_what_the_program_cannot_do_is_one_line(ours: Pipeline, sounds: list[NDArray[Any]]) -> None:
    with pytest.raises(ValueError, match="timestamps of words: programs return no attention; use return_timestamps="):
        ours(as_input(sounds[0]), return_timestamps="word")
    with pytest.raises(Exception, match="4 prompts were given, the bundle runs at most 2 rows at once"):
        ours([as_input(sounds[0]) for _ in range(4)], batch_size=4)


def test_the_example_transcribes(
    ours: Pipeline, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle, sound = ours.model.bundle.root, real_weights().speech_wavs()[0]
    monkeypatch.setattr(sys, "argv", ["pipelines.py", TASK, str(bundle), str(sound)])
    runpy.run_path(str(EXAMPLES / "pipelines.py"), run_name="__main__")
    assert capsys.readouterr().out == f"{BECKETT}\n"
