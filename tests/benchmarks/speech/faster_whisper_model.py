"""faster-whisper on the packaged CTranslate2 model: greedy, no timestamps, no voice detection, no fallback.

Its mel features are its own and padded differently, so its tokens may differ.
"""

from __future__ import annotations

import time

from faster_whisper import WhisperModel

from tests.benchmarks.harness.job import Answer, Job
from tests.benchmarks.harness.serve import serve
from tests.benchmarks.speech.samples import read_samples


class FasterWhisper:
    cache_element_bytes = 4
    weights_bytes = 0

    def __init__(self, job: Job) -> None:
        self._audio = job.audio
        self._model = WhisperModel(
            job.model,
            device="cpu",
            compute_type=job.variant,
            cpu_threads=job.threads,
            num_workers=1,
            local_files_only=True,
        )

    def answer(self) -> Answer:
        started = time.perf_counter()
        segments, _ = self._model.transcribe(
            read_samples(self._audio),
            language="en",
            beam_size=1,
            temperature=0.0,
            without_timestamps=True,
            vad_filter=False,
            condition_on_previous_text=False,
        )
        tokens = [token for segment in segments for token in segment.tokens]
        return Answer([tokens], 0.0, 0.0, time.perf_counter() - started)


if __name__ == "__main__":
    serve(FasterWhisper, ["faster-whisper", "ctranslate2"])
