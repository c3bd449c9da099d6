"""llama.cpp through llama-cpp-python's own low-level bindings: token ids in, logits out, one sequence.

Dense files are made by llama.cpp's own quantizer: F32 from the packaged GGUF, the others from that F32 file, so that
all formats see the same weights. The F32 variant keeps its caches in F32 too; the others use llama.cpp's default F16.
"""

from __future__ import annotations

import ctypes
from multiprocessing import get_context
from pathlib import Path

import llama_cpp
import numpy as np

from tests.benchmarks.harness.greedy import GreedyRival
from tests.benchmarks.harness.job import Job, Unavailable
from tests.benchmarks.harness.serve import serve

FORMATS = {
    "F32": llama_cpp.LLAMA_FTYPE_ALL_F32,
    "Q8_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0,
    "Q4_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_0,
}
_GGML_F32, _GGML_F16 = 0, 1


class LlamaCppModel:
    def __init__(self, job: Job) -> None:
        path = gguf_of(job)
        self.weights_bytes = path.stat().st_size
        self.cache_element_bytes = 4 if job.variant == "F32" else 2
        llama_cpp.llama_backend_init()
        self._model = llama_cpp.llama_model_load_from_file(str(path).encode(), llama_cpp.llama_model_default_params())
        if not self._model:
            raise Unavailable(f"llama.cpp cannot load {path.name}")
        self._context = llama_cpp.llama_init_from_model(self._model, context_parameters(job))
        if not self._context:
            raise Unavailable("llama.cpp cannot make a context")
        self._memory = llama_cpp.llama_get_memory(self._context)
        self._vocab_size = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self._model))

    def begin(self, prompts: list[list[int]]) -> list[int]:
        llama_cpp.llama_memory_clear(self._memory, True)
        return self._run(prompts[0])

    def step(self, tokens: list[int]) -> list[int]:
        return self._run(tokens)

    def _run(self, tokens: list[int]) -> list[int]:
        """Evaluate tokens of the one sequence; the choice after the last."""
        array = (llama_cpp.llama_token * len(tokens))(*tokens)
        code = llama_cpp.llama_decode(self._context, llama_cpp.llama_batch_get_one(array, len(tokens)))
        if code:
            raise Unavailable(f"llama_decode returned {code}")
        return [int(self._logits().argmax())]

    def last_logits(self) -> np.ndarray:
        """float32 `[vocabulary]` after the last token."""
        return self._logits().copy()

    def _logits(self) -> np.ndarray:
        logits = llama_cpp.llama_get_logits_ith(self._context, -1)
        return np.ctypeslib.as_array(logits, (self._vocab_size,))


def context_parameters(job: Job) -> llama_cpp.llama_context_params:
    """Equal thread counts for prompts and steps, and the job's capacity."""
    parameters = llama_cpp.llama_context_default_params()
    parameters.n_ctx = job.capacity
    parameters.n_threads = parameters.n_threads_batch = job.threads
    parameters.type_k = parameters.type_v = _GGML_F32 if job.variant == "F32" else _GGML_F16
    return parameters


def gguf_of(job: Job) -> Path:
    """The file of the job's variant, made once; any other variant is the packaged file as it is."""
    packaged = Path(job.model)
    if job.variant not in FORMATS:
        return packaged
    dense = _quantized(packaged, "F32", Path(job.work), job.threads)
    return dense if job.variant == "F32" else _quantized(dense, job.variant, Path(job.work), job.threads)


def _quantized(source: Path, variant: str, work: Path, threads: int) -> Path:
    target = work / f"{source.name.partition('.')[0].removesuffix('-F32')}-{variant}.gguf"
    if not target.is_file():
        aside = target.with_suffix(".partial")
        # In a process of its own: the memory that it takes is not that of decoding.
        maker = get_context("spawn").Process(target=_quantize, args=(source, aside, variant, threads))
        maker.start()
        maker.join()
        if maker.exitcode:
            raise Unavailable(f"llama_model_quantize to {variant} returned {maker.exitcode}")
        aside.rename(target)
    return target


def _quantize(source: Path, target: Path, variant: str, threads: int) -> None:
    parameters = llama_cpp.llama_model_quantize_default_params()
    parameters.nthread, parameters.ftype, parameters.allow_requantize = threads, FORMATS[variant], True
    code = llama_cpp.llama_model_quantize(str(source).encode(), str(target).encode(), ctypes.byref(parameters))
    raise SystemExit(1 if code else 0)


if __name__ == "__main__":
    serve(lambda job: GreedyRival(job, LlamaCppModel(job)), ["llama-cpp-python"])
