"""What `transformers.exporters` makes of a decoder-only model: one ExecuTorch program over a static cache.

Its multi-token `decode` component takes prompts and single tokens alike. The cache is input and output of the
program, so every step copies it. Python integers of sliding layers are fixed by the trace; they are put back before
every call, which is right as long as the window has not been passed.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch
from transformers import GenerationConfig, PreTrainedModel
from transformers.exporters import ExecutorchConfig, ExecutorchExporter, ExportedModel
from transformers.exporters.utils import decompose_for_generation

from runtime_shims.reference.executorch_program import set_runtime_threads

TRACED_PROMPT = 12
_INTEGER = "cumulative_length_int"


class StaticDecode:
    """The exported program and its cache."""

    def __init__(self, model: PreTrainedModel, capacity: int, directory: Path, threads: int) -> None:
        """Export into `directory` unless that has been done, and load the program."""
        component, inputs = _decompose(model, capacity)
        if not directory.is_dir():
            config = ExecutorchConfig(dynamic=True)
            exported = ExecutorchExporter().export(component, copy.deepcopy(inputs), config)
            aside = directory.with_name(f".{directory.name}.partial")
            exported.save_pretrained(aside)
            aside.rename(directory)
        torch.set_num_threads(1)
        set_runtime_threads(threads)
        self._run = ExportedModel.from_pretrained(directory).runners["model"]
        self._fresh = inputs["cache"]
        self._fresh.reset()
        self._widths = _mask_widths(inputs["attention_mask"])
        self._integers = [getattr(layer, _INTEGER, None) for layer in inputs["cache"].layers]
        self.begin()

    def begin(self) -> None:
        """Start from an empty cache."""
        self._cache = copy.deepcopy(self._fresh)
        self._length = 0

    def fill(self, live: int) -> None:
        """Start from a cache that holds `live` positions of noise."""
        self.begin()
        self._length = live
        for layer in self._cache.layers:
            layer.keys.normal_()
            layer.values.normal_()
            layer.cumulative_length.fill_(live)

    def run(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits float32 [1, T, V] of tokens int64 [1, T], which are added to the cache."""
        count = tokens.shape[1]
        positions = torch.arange(self._length, self._length + count)
        for layer, integer in zip(self._cache.layers, self._integers, strict=True):
            if integer is not None:
                setattr(layer, _INTEGER, integer)
        output = self._run(
            input_ids=tokens,
            attention_mask=self._mask(positions),
            position_ids=positions[None],
            cache=self._cache,
        )
        self._cache = output.cache
        self._length += count
        return output.logits

    def _mask(self, positions: torch.Tensor) -> Any:
        """Boolean [1, 1, T, slots], by kind of layer where the model tells them apart."""
        masks = {
            kind: (torch.arange(slots)[None, :] <= positions[:, None])[None, None]
            for kind, slots in self._widths.items()
        }
        return masks.get("", masks)


def _decompose(model: PreTrainedModel, capacity: int) -> tuple[Any, dict[str, Any]]:
    prompt = torch.arange(3, 3 + TRACED_PROMPT)[None]
    generation = GenerationConfig(cache_implementation="static", max_cache_len=capacity, do_sample=False)
    inputs = {"input_ids": prompt, "attention_mask": torch.ones_like(prompt)}
    return decompose_for_generation(model, inputs, generation_config=generation, multi_token_decode=True)["decode"]


def _mask_widths(mask: Any) -> dict[str, int]:
    return {kind: part.shape[-1] for kind, part in mask.items()} if isinstance(mask, dict) else {"": mask.shape[-1]}
