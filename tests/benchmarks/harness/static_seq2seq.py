"""What `transformers.exporters` makes of an encoder-decoder: encoder, first step and further steps as three programs.

They serve one batch and one source length. The exporter makes no encoder program of its own accord: it is exported
here as a model of its own. Caches are inputs and outputs, so every step copies them.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel
from transformers.exporters import ExecutorchConfig, ExecutorchExporter, ExportedModel
from transformers.exporters.utils import decompose_for_generation
from transformers.modeling_outputs import BaseModelOutput

from runtime_shims.reference.executorch_program import set_runtime_threads

Inputs = dict[str, Any]


class StaticSeq2Seq:
    """The three programs and their caches."""

    def __init__(self, model: PreTrainedModel, source: Inputs, capacity: int, place: Path) -> None:
        """Export into directories `place`-encoder and so on, unless that has been done.

        `source` is what the encoder is called with: its shapes are those of every later call.
        """
        parts = _components(model, source, capacity)
        self._inputs = {name: inputs for name, (_, inputs) in parts.items()}
        self._places = {
            name: _exported(part, inputs, place.with_name(f"{place.name}-{name}"))
            for name, (part, inputs) in parts.items()
        }

    def load(self, threads: int) -> None:
        """Load the programs, with all threads in the program runtime's pool."""
        torch.set_num_threads(1)
        set_runtime_threads(threads)
        self._run = {name: ExportedModel.from_pretrained(at).runners["model"] for name, at in self._places.items()}

    def begin(self, source: Inputs) -> None:
        """Run the encoder and start from empty caches."""
        self._encoded = self._run["encoder"](**source).last_hidden_state
        self._cache = copy.deepcopy(self._inputs["prefill"]["cache"])
        self._length = 0

    def run(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits float32 [B, T, V] after decoder tokens int64 [B, T]; T of the first call is that of the trace."""
        name = "decode" if self._length else "prefill"
        inputs = dict(self._inputs[name])
        count = tokens.shape[1]
        positions = torch.arange(self._length, self._length + count)
        inputs["decoder_input_ids"] = tokens
        if inputs.get("decoder_position_ids") is not None:
            inputs["decoder_position_ids"] = positions.expand(tokens.shape)
        if inputs.get("decoder_attention_mask") is not None:
            inputs["decoder_attention_mask"] = _seen(inputs["decoder_attention_mask"], positions)
        inputs["encoder_outputs"] = BaseModelOutput(last_hidden_state=self._encoded)
        inputs["cache"] = self._cache
        output = self._run[name](**inputs)
        self._cache = output.cache
        self._length += count
        return output.logits.clone()


def _seen(mask: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """The mask of a step in the form of the traced one, [B, 1, T, slots]."""
    visible = (torch.arange(mask.shape[-1])[None, :] <= positions[:, None]).expand(mask.shape).contiguous()
    if mask.dtype == torch.bool:
        return visible
    return torch.zeros(mask.shape, dtype=mask.dtype).masked_fill(~visible, torch.finfo(mask.dtype).min)


def _components(model: PreTrainedModel, source: Inputs, capacity: int) -> dict[str, tuple[Any, Inputs]]:
    """The three modules and what they are called with."""
    generation = copy.deepcopy(model.generation_config)
    generation.update(cache_implementation="static", max_cache_len=capacity, do_sample=False)
    parts = decompose_for_generation(model, source, generation_config=generation)
    for _, inputs in parts.values():
        inputs["encoder_outputs"] = BaseModelOutput(last_hidden_state=inputs["encoder_outputs"].last_hidden_state)
    return {"encoder": (model.get_encoder(), dict(source)), **parts}


def _exported(part: Any, inputs: Inputs, directory: Path) -> Path:
    """The program of one part, made once."""
    if not directory.is_dir():
        result = ExecutorchExporter().export(part, copy.deepcopy(inputs), ExecutorchConfig())
        aside = directory.with_name(f".{directory.name}.partial")
        result.save_pretrained(aside)
        aside.rename(directory)
    return directory
