"""Stock `generate` over a compiled forward, with a cache of ours: the same answers, and no graph per step.

Backend `eager` traces, guards and recompiles as any other does, and generates no code; `tests/real` has a run of
generated code.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend
from torch._dynamo.utils import counters
from transformers import AutoModelForCausalLM, PreTrainedModel

from exporter.hf import fixed_capacity_cache
from tests.support import drop_in_models, tiny_configs, tiny_models
from tests.support.drop_in import answer, check_equal, spoil

REQUESTS = {"t5": ((1, 9), (2, 13)), "gemma3": ((2, 13),), "whisper": ((2, 0),)}
MOST_GRAPHS = 8
"""At which `torch.compile` gives up by default (`torch._dynamo.config.recompile_limit`)."""


class CountedForward:
    """A model's compiled forward; `graphs` is how many there were after each call."""

    def __init__(self, model: PreTrainedModel, backend: str) -> None:
        counter = CompileCounterWithBackend(backend)
        compiled = torch.compile(model.forward, backend=counter)
        self.graphs: list[int] = []

        @wraps(model.forward)
        def forward(*args: Any, **kwargs: Any) -> Any:
            outputs = compiled(*args, **kwargs)
            self.graphs.append(counter.frame_count)
            return outputs

        model.forward = forward


def two_of_each(name: str) -> list[PreTrainedModel]:
    """The tiny model twice; of Gemma 3 one sliding and one full layer, as more of them only cost time."""
    if name != "gemma3":
        return [tiny_models.build(name) for _ in range(2)]
    config = tiny_configs.gemma3()
    config.num_hidden_layers, config.layer_types = 2, [tiny_configs.SLIDING, tiny_configs.FULL]
    return [drop_in_models.seeded(AutoModelForCausalLM.from_config(config)) for _ in range(2)]


@pytest.mark.parametrize("name", REQUESTS)
def test_a_compiled_forward_gives_the_same_and_compiles_nothing_per_step(name: str) -> None:
    """24 tokens take each ring twice over its seam. Batches of two are ragged."""
    torch._dynamo.reset()
    counters.clear()
    eager, model = two_of_each(name)
    cache = fixed_capacity_cache(
        model, max_batch=3, max_enc=26 if model.config.is_encoder_decoder else None, max_dec=64, max_draft=4
    )
    spoil(cache)
    compiled = CountedForward(model, "eager")
    for batch, length in REQUESTS[name]:
        inputs = tiny_models.source(name, batch, length, seed=batch)
        masks = {"attention_mask": torch.ones(batch, length, dtype=torch.int64)} if name != "whisper" else {}
        if batch > 1 and masks:
            masks["attention_mask"][0, slice(0, 3) if name == "gemma3" else slice(-3, None)] = 0
        compiled.graphs.clear()
        check_equal(answer(model, inputs, cache, **masks), answer(eager, inputs, **masks))
        _prompt, first_step, *steps = compiled.graphs
        assert set(steps) == {first_step}
        assert first_step < MOST_GRAPHS
    assert not counters["graph_break"]
