"""Our bundle: the features of its own program and greedy generation."""

from __future__ import annotations

import time
from pathlib import Path

from runtime_shims.reference.audio import AudioCut, Waveforms
from runtime_shims.reference.generation import generate
from tests.benchmarks.decode.ours import open_job_session
from tests.benchmarks.harness.job import Answer, Job
from tests.benchmarks.harness.serve import serve


class BundleSpeech:
    cache_element_bytes = 4

    def __init__(self, job: Job) -> None:
        self._audio = Path(job.audio)
        self._session = open_job_session(job)
        assert self._session.manifest.speech is not None
        self._sound = Waveforms(self._session.manifest.speech)
        self._rules = self._session.manifest.tokens
        self.weights_bytes = self._session.manifest.memory.weights_bytes

    def answer(self) -> Answer:
        started = time.perf_counter()
        features = self._session.features(self._sound.of_file(self._audio, AudioCut(0.0, None)))
        said = generate(self._session, [self._rules.start], features)[0].tokens
        total = time.perf_counter() - started
        return Answer([[token for token in said if token not in self._rules.eos]], 0.0, 0.0, total)


if __name__ == "__main__":
    serve(BundleSpeech, ["fixed-capacity", "executorch", "torch"])
