"""The two engines that `bench_models.py` compares, each run as a process of its own.

    python model_engines.py JOB

JOB is a `Job` as JSON. Commands come on standard input, one per line; every one is answered by one JSON line:

    (start)  {"load_seconds": s}
    answer   {"tokens": [[ids] per row], "first_token": s, "decode": s, "total": s}
    finish   {"peak_rss_bytes": n}, and the process ends

`first_token` covers everything up to the first new token, sound file and encoder included; `decode` the rest.
For speech, stock `generate` tells only the total.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

sys.path.insert(0, str(Path(__file__).parents[2]))

SAMPLING_RATE = 16_000


@dataclass(frozen=True)
class Job:
    """What to run. `path` is a checkpoint (eager) or a bundle; both take the tokenizer of `checkpoint`."""

    engine: str
    path: str
    checkpoint: str
    threads: int
    rows: int
    new_tokens: int
    prompt: str
    audio: str | None
    audio_seconds: float


@dataclass(frozen=True)
class Answer:
    """New tokens per row, without the end-of-sequence token of speech, and seconds of each part."""

    tokens: list[list[int]]
    first_token: float
    decode: float
    total: float


class Engine(Protocol):
    """A loaded model that runs its workload again and again."""

    def answer(self) -> Answer: ...


class EagerText:
    """A bare greedy loop over the stock model and its dynamic cache: less overhead than `generate`."""

    def __init__(self, job: Job) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        self._job = job
        self._model = AutoModelForCausalLM.from_pretrained(job.path, dtype=torch.float32).eval()
        self._prompts = torch.tensor(prompts(job))

    def answer(self) -> Answer:
        import torch
        from transformers import DynamicCache

        started = time.perf_counter()
        cache = DynamicCache(config=self._model.config)
        step, tokens = self._prompts, []
        with torch.inference_mode():
            while len(tokens) < self._job.new_tokens:
                output = self._model(input_ids=step, cache=cache, use_cache=True, logits_to_keep=1)
                step = output.logits[:, -1].argmax(dim=-1, keepdim=True)
                tokens.append(step[:, 0].tolist())
                if len(tokens) == 1:
                    first = time.perf_counter()
        return timed([list(row) for row in zip(*tokens, strict=True)], started, first)


class BundleText:
    """A session over the bundle, driven greedily past end-of-sequence like the eager loop."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._session = open_bundle(job)
        self._prompts = prompts(job)

    def answer(self) -> Answer:
        started = time.perf_counter()
        self._session.begin(self._prompts)
        rows = [[token] for token in self._session.prefill().argmax(dim=-1).tolist()]
        first = time.perf_counter()
        for _ in range(self._job.new_tokens - 1):
            logits = self._session.step([row[-1:] for row in rows])[:, 0]
            for row, token in zip(rows, logits.argmax(dim=-1).tolist(), strict=True):
                row.append(token)
        return timed(rows, started, first)


class EagerSpeech:
    """Sound file to tokens by the checkpoint's processor and stock `generate`."""

    def __init__(self, job: Job) -> None:
        import torch
        from transformers import AutoModelForSpeechSeq2Seq, AutoProcessor

        self._job = job
        self._processor = AutoProcessor.from_pretrained(job.checkpoint)
        self._model = AutoModelForSpeechSeq2Seq.from_pretrained(job.path, dtype=torch.float32).eval()

    def answer(self) -> Answer:
        from runtime_shims.reference.audio import AudioCut, read_mono

        started = time.perf_counter()
        samples = read_mono(
            Path(self._job.audio or ""), AudioCut(0.0, self._job.audio_seconds), SAMPLING_RATE
        )
        features = self._processor(samples, sampling_rate=SAMPLING_RATE, return_tensors="pt").input_features
        tokens = self._model.generate(features, do_sample=False, num_beams=1)
        total = time.perf_counter() - started
        return Answer(tokens.tolist(), total, 0.0, total)


class BundleSpeech:
    """Sound file to tokens by the bundle's own feature extractor and greedy generation."""

    def __init__(self, job: Job) -> None:
        from runtime_shims.contract.bundle_reader import read_bundle
        from runtime_shims.reference.audio import load_speech_features

        self._job = job
        self._extractor = load_speech_features(read_bundle(Path(job.path), check_hashes=False))
        self._session = open_bundle(job)

    def answer(self) -> Answer:
        from runtime_shims.reference.audio import AudioCut
        from runtime_shims.reference.generation import generate

        started = time.perf_counter()
        cut = AudioCut(0.0, self._job.audio_seconds)
        features = self._extractor.of_file(Path(self._job.audio or ""), cut)
        rules = self._session.manifest.tokens
        tokens = generate(self._session, [rules.start], features)[0].tokens
        total = time.perf_counter() - started
        return Answer([[token for token in tokens if token not in rules.eos]], total, 0.0, total)


def timed(tokens: list[list[int]], started: float, first: float) -> Answer:
    """An answer that is complete now."""
    now = time.perf_counter()
    return Answer(tokens, first - started, now - first, now - started)


def prompts(job: Job) -> list[list[int]]:
    """Rows of equal length that differ in their last token, so that eager needs no padding."""
    from transformers import AutoTokenizer

    ids = AutoTokenizer.from_pretrained(job.checkpoint)(job.prompt).input_ids
    return [[*ids[:-1], ids[-1 - row]] for row in range(job.rows)]


def open_bundle(job: Job):
    """A session with all threads in the program runtime's pool."""
    from runtime_shims.contract.bundle_reader import read_bundle
    from runtime_shims.reference.executorch_program import set_runtime_threads
    from runtime_shims.reference.loading import open_session

    set_runtime_threads(job.threads)
    return open_session(read_bundle(Path(job.path), check_hashes=False))


def make_engine(job: Job) -> Engine:
    """Load the engine of a job; PyTorch gets the threads in eager, one otherwise."""
    import torch

    torch.set_num_threads(job.threads if job.engine == "eager" else 1)
    kinds: dict[tuple[str, bool], type[Engine]] = {
        ("eager", False): EagerText,
        ("bundle", False): BundleText,
        ("eager", True): EagerSpeech,
        ("bundle", True): BundleSpeech,
    }
    return kinds[job.engine, job.audio is not None](job)


def main() -> None:
    """Serve commands until `finish`. Whatever libraries print goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    job = Job(**json.loads(sys.argv[1]))
    started = time.perf_counter()
    engine = make_engine(job)
    print(json.dumps({"load_seconds": time.perf_counter() - started}), file=answers)
    for command in sys.stdin:
        if command.strip() == "finish":
            break
        print(json.dumps(vars(engine.answer())), file=answers)
    from runtime_shims.reference.stats import peak_rss_bytes

    print(json.dumps({"peak_rss_bytes": peak_rss_bytes()}), file=answers)


if __name__ == "__main__":
    main()
