"""ONNX Runtime GenAI: its model builder reads the local checkpoint, its generator runs the result."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime_genai

from tests.benchmarks.harness.greedy import GreedyRival
from tests.benchmarks.harness.job import Job, Unavailable, one_line
from tests.benchmarks.harness.serve import serve


class GenaiModel:
    cache_element_bytes = 4

    def __init__(self, job: Job) -> None:
        directory = built(job)
        set_threads(directory / "genai_config.json", job.threads)
        self._model = onnxruntime_genai.Model(str(directory))
        self._parameters = onnxruntime_genai.GeneratorParams(self._model)
        self._parameters.set_search_options(max_length=job.capacity, do_sample=False)
        self._generator = onnxruntime_genai.Generator(self._model, self._parameters)
        self.weights_bytes = sum(file.stat().st_size for file in directory.glob("*.onnx.data"))

    def begin(self, prompts: list[list[int]]) -> list[int]:
        self._generator = onnxruntime_genai.Generator(self._model, self._parameters)
        return self._run(prompts[0])

    def step(self, tokens: list[int]) -> list[int]:
        return self._run(tokens)

    def _run(self, tokens: list[int]) -> list[int]:
        self._generator.append_tokens(np.array([tokens], dtype=np.int32))
        return [int(np.asarray(self._generator.get_logits()).reshape(-1, self._vocab()).argmax(axis=-1)[-1])]

    def _vocab(self) -> int:
        return int(np.asarray(self._generator.get_logits()).shape[-1])


def built(job: Job) -> Path:
    """The model in GenAI's own form, made once by its builder."""
    directory = Path(job.work) / f"genai-{Path(job.checkpoint).name}-{job.variant}"
    if not directory.is_dir():
        aside = directory.with_name(f".{directory.name}.partial")
        command = [sys.executable, "-m", "onnxruntime_genai.models.builder", "-i", job.checkpoint, "-o", str(aside)]
        command += ["-p", job.variant, "-e", "cpu", "-c", str(aside / "cache"), "--extra_options", "hf_token=false"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Unavailable(f"its builder failed: {one_line(done.stderr.strip().splitlines()[-1])}")
        aside.rename(directory)
    return directory


def set_threads(file: Path, threads: int) -> None:
    """Write the thread count into the model's own settings, the only place that GenAI reads it from."""
    settings = json.loads(file.read_text("utf-8"))
    options = settings["model"]["decoder"]["session_options"]
    options["intra_op_num_threads"], options["inter_op_num_threads"] = threads, 1
    file.write_text(json.dumps(settings, indent=1), encoding="utf-8")


if __name__ == "__main__":
    serve(lambda job: GreedyRival(job, GenaiModel(job)), ["onnxruntime-genai", "onnxruntime"])
