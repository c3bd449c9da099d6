"""CTranslate2's translator, converted from the checkpoint: greedy, end of sequence suppressed by a least length.

Tokens go in and out as the words of the checkpoint's own tokenizer; mapping them is not timed.
"""

from __future__ import annotations

import time
from pathlib import Path

import ctranslate2
from ctranslate2.converters import TransformersConverter

from tests.benchmarks.harness.job import Answer, Job
from tests.benchmarks.harness.serve import serve
from tests.benchmarks.harness.words import SPECIAL, word


class Translator:
    cache_element_bytes = 4
    weights_bytes = 0

    def __init__(self, job: Job) -> None:
        self._job = job
        directory = Path(job.work) / f"ctranslate2-{Path(job.checkpoint).name}"
        if not directory.is_dir():
            aside = directory.with_name(f".{directory.name}.partial")
            TransformersConverter(job.checkpoint).convert(str(aside), force=True)
            aside.rename(directory)
        self._translator = ctranslate2.Translator(
            str(directory), device="cpu", compute_type=job.variant, inter_threads=1, intra_threads=job.threads
        )
        self._sources = [[word(token) for token in row] for row in job.prompts]

    def answer(self) -> Answer:
        started = time.perf_counter()
        results = self._translator.translate_batch(
            self._sources,
            beam_size=1,
            min_decoding_length=self._job.new_tokens,
            max_decoding_length=self._job.new_tokens,
            max_input_length=0,
        )
        total = time.perf_counter() - started
        tokens = [[token_of(text) for text in result.hypotheses[0]] for result in results]
        return Answer(tokens, 0.0, 0.0, total)


def token_of(text: str) -> int:
    """The token id of a word, see `checkpoints.word`."""
    return int(text[1:]) if text.startswith("w") else SPECIAL.index(text)


if __name__ == "__main__":
    serve(Translator, ["ctranslate2", "transformers"])
