"""CTranslate2's Whisper on the packaged model: the checkpoint's own features, greedy, no timestamps."""

from __future__ import annotations

import json
import time
from pathlib import Path

import ctranslate2
import torch
from transformers import AutoFeatureExtractor

from tests.benchmarks.harness.job import Answer, Job
from tests.benchmarks.harness.serve import serve
from tests.benchmarks.speech.samples import SAMPLING_RATE, read_samples


class CTranslate2Whisper:
    cache_element_bytes = 4
    weights_bytes = 0

    def __init__(self, job: Job) -> None:
        torch.set_num_threads(job.threads)
        self._audio = job.audio
        self._extractor = AutoFeatureExtractor.from_pretrained(job.checkpoint)
        settings = json.loads((Path(job.checkpoint) / "generation_config.json").read_text("utf-8"))
        self._prompt = [settings["decoder_start_token_id"]] + [
            token for _, token in settings.get("forced_decoder_ids") or [(1, settings["no_timestamps_token_id"])]
        ]
        self._end = settings["eos_token_id"]
        self._model = ctranslate2.models.Whisper(
            job.model, device="cpu", compute_type=job.variant, inter_threads=1, intra_threads=job.threads
        )

    def answer(self) -> Answer:
        started = time.perf_counter()
        samples = read_samples(self._audio)
        features = self._extractor(samples, sampling_rate=SAMPLING_RATE, return_tensors="np").input_features
        view = ctranslate2.StorageView.from_array(features)
        result = self._model.generate(view, [self._prompt], beam_size=1)[0]
        total = time.perf_counter() - started
        tokens = [token for token in result.sequences_ids[0] if token != self._end]
        return Answer([tokens], 0.0, 0.0, total)


if __name__ == "__main__":
    serve(CTranslate2Whisper, ["ctranslate2", "transformers"])
