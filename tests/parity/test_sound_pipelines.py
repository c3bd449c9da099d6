"""Moonshine as a model of transformers: stock answers for each row of a batch, and the speech pipeline over it.

Shape legend: B rows, N samples.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from torch import Tensor

from exporter.hf import FixedCapacityModelForSpeechSeq2Seq, pipeline
from exporter.hf_models.pipelines import SpeechPipeline
from runtime_shims.contract.errors import CapacityExceeded, UserInputError
from tests.parity.bundle_models import as_model
from tests.parity.programs import MOONSHINE, Lowered, on
from tests.parity.test_sound_lengths import noise
from tests.support.letters import letter_tokenizer
from tests.support.tiny_configs import VOCAB

RATE = 16_000
LENGTHS = (5_000, 895, 20_000)
NEW = {"max_new_tokens": 10}


def batch(lengths: tuple[int, ...]) -> dict[str, Tensor]:
    """Sound float32 [B, N] with loud padding on the right, and the mask that says so."""
    sound_BN = torch.ones(len(lengths), max(lengths))
    mask_BN = torch.zeros(len(lengths), max(lengths), dtype=torch.int64)
    for row, samples in enumerate(lengths):
        sound_BN[row, :samples], mask_BN[row, :samples] = noise(samples, row), 1
    return {"input_values": sound_BN, "attention_mask": mask_BN}


@pytest.fixture
def run(lowered: Lowered) -> SpeechPipeline:
    tokenizer = letter_tokenizer(VOCAB)
    tokenizer.pad_token_id = tokenizer.eos_token_id  # the bundle of a shared program carries none
    made = pipeline("automatic-speech-recognition", as_model(lowered), tokenizer=tokenizer)
    assert isinstance(made, SpeechPipeline)
    return made


@on(MOONSHINE)
def test_rows_of_sound_are_answered_as_the_stock_model_answers_each_alone(lowered: Lowered) -> None:
    model, stock = as_model(lowered), lowered.stock.model
    assert isinstance(model, FixedCapacityModelForSpeechSeq2Seq)
    answers = model.generate(**batch(LENGTHS), **NEW)
    for row, samples in enumerate(LENGTHS):
        alone = noise(samples, row)[None]
        wanted = stock.generate(input_values=alone, **NEW)
        assert torch.equal(answers[row : row + 1, : wanted.shape[1]], wanted)
        assert torch.equal(model.generate(alone.double(), **NEW), wanted)


@on(MOONSHINE)
def test_sound_that_a_model_cannot_hear_is_refused(lowered: Lowered) -> None:
    model = as_model(lowered)
    given = batch(LENGTHS)
    with pytest.raises(UserInputError, match=r"mask has shape \(3, 7\) for an input of shape \(3, 20000\)"):
        model.generate(given["input_values"], attention_mask=given["attention_mask"][:, :7], **NEW)
    with pytest.raises(UserInputError, match=r"row 0 has .* the encoder takes at least"):
        model.generate(noise(894)[None], **NEW)
    with pytest.raises(CapacityExceeded, match=r"row 0 has .*--max-enc"):
        model.generate(noise(30_000)[None], **NEW)


@on(MOONSHINE)
def test_files_and_samples_of_any_rate_are_transcribed(run: SpeechPipeline, tmp_path: Path) -> None:
    samples, files = noise(12_000).numpy(), [tmp_path / "mono.wav", tmp_path / "stereo.wav"]
    soundfile.write(files[0], samples, RATE, subtype="FLOAT")
    soundfile.write(files[1], np.stack([samples, samples], axis=1), RATE, subtype="FLOAT")
    expected = run(samples.copy(), **NEW)
    assert len(expected["text"]) > 1
    assert run([*map(str, files), files[0]], batch_size=3, **NEW) == [expected] * 3
    soundfile.write(files[0], samples, 22_050, subtype="FLOAT")
    assert run({"raw": samples.astype(np.float64), "sampling_rate": 22_050}, **NEW) == run(str(files[0]), **NEW)
    with pytest.raises(UserInputError, match=r"there is no audio file nowhere\.wav"):
        run("nowhere.wav")
    with pytest.raises(ValueError, match="timestamps"):
        run(str(files[0]), return_timestamps=True)


@on(MOONSHINE)
def test_a_pipeline_names_the_tokenizer_that_a_bundle_lacks(lowered: Lowered) -> None:
    with pytest.raises(UserInputError, match=r"the bundle carries no tokenizer; give tokenizer=, or export"):
        pipeline("automatic-speech-recognition", as_model(lowered))
