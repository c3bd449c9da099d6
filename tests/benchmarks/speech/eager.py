"""The checkpoint's own processor and stock eager `generate`."""

from __future__ import annotations

import time

import torch
from transformers import AutoModelForSpeechSeq2Seq, AutoProcessor

from tests.benchmarks.decode.eager import weights_bytes
from tests.benchmarks.harness.job import Answer, Job
from tests.benchmarks.harness.serve import serve
from tests.benchmarks.speech.samples import SAMPLING_RATE, read_samples


class EagerSpeech:
    cache_element_bytes = 4

    def __init__(self, job: Job) -> None:
        torch.set_num_threads(job.threads)
        self._audio = job.audio
        self._processor = AutoProcessor.from_pretrained(job.checkpoint)
        model = AutoModelForSpeechSeq2Seq.from_pretrained(job.checkpoint, dtype=torch.float32)
        self._model = model.eval().requires_grad_(False)
        self.weights_bytes = weights_bytes(self._model)

    def answer(self) -> Answer:
        started = time.perf_counter()
        samples = read_samples(self._audio)
        features = self._processor(samples, sampling_rate=SAMPLING_RATE, return_tensors="pt").input_features
        tokens = self._model.generate(features, do_sample=False, num_beams=1).tolist()
        total = time.perf_counter() - started
        return Answer(tokens, 0.0, 0.0, total)


if __name__ == "__main__":
    serve(EagerSpeech, ["transformers", "torch"])
