"""`transformers.exporters` to ExecuTorch with XNNPACK: the loop and the token rules are written here."""

from __future__ import annotations

import time
from pathlib import Path

import torch
from transformers import AutoFeatureExtractor, AutoModelForSpeechSeq2Seq

from tests.benchmarks.harness.job import Answer, Job
from tests.benchmarks.harness.serve import serve
from tests.benchmarks.harness.static_seq2seq import StaticSeq2Seq
from tests.benchmarks.speech.samples import SAMPLING_RATE, read_samples


class ExportedSpeech:
    cache_element_bytes = 4
    weights_bytes = 0

    def __init__(self, job: Job) -> None:
        torch.set_num_threads(job.threads)
        self._audio = job.audio
        self._extractor = AutoFeatureExtractor.from_pretrained(job.checkpoint)
        model = AutoModelForSpeechSeq2Seq.from_pretrained(job.checkpoint, dtype=torch.float32)
        model.eval().requires_grad_(False)
        self._rules = model.generation_config
        self._positions = model.config.max_target_positions
        place = Path(job.work) / f"exporters-{Path(job.checkpoint).name}"
        source = {"input_features": self._features()}
        self._program = StaticSeq2Seq(model, source, self._positions, place)
        self._program.load(job.threads)

    def _features(self) -> torch.Tensor:
        samples = read_samples(self._audio)
        return self._extractor(samples, sampling_rate=SAMPLING_RATE, return_tensors="pt").input_features

    def answer(self) -> Answer:
        started = time.perf_counter()
        self._program.begin({"input_features": self._features()})
        rules = self._rules
        step = [rules.decoder_start_token_id, rules.no_timestamps_token_id]
        said: list[int] = []
        banned = [*rules.suppress_tokens, *rules.begin_suppress_tokens]
        while len(said) < self._positions - 2:
            logits_V = self._program.run(torch.tensor([step]))[0, -1]
            logits_V[banned] = -torch.inf
            token = int(logits_V.argmax())
            if token == rules.eos_token_id:
                break
            said.append(token)
            step, banned = [token], rules.suppress_tokens
        return Answer([said], 0.0, 0.0, time.perf_counter() - started)


if __name__ == "__main__":
    serve(ExportedSpeech, ["transformers", "executorch", "torch"])
