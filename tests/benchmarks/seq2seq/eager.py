"""Stock eager transformers: encoder once, then a bare greedy loop over the dynamic cache."""

from __future__ import annotations

import torch
from transformers import AutoModelForSeq2SeqLM, DynamicCache, EncoderDecoderCache, PreTrainedModel

from tests.benchmarks.harness.greedy import GreedyRival
from tests.benchmarks.harness.job import Job
from tests.benchmarks.harness.serve import serve


class EagerSeq2Seq:
    cache_element_bytes = 4
    weights_bytes = 0  # most of the time is the encoder's, which is not bound by reading

    def __init__(self, job: Job) -> None:
        self._model = load_model(job)

    @torch.inference_mode()
    def begin(self, prompts: list[list[int]]) -> list[int]:
        config = self._model.config
        self._cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        self._encoded = self._model.get_encoder()(input_ids=torch.tensor(prompts))
        return self.step([config.decoder_start_token_id] * len(prompts))

    @torch.inference_mode()
    def step(self, tokens: list[int]) -> list[int]:
        output = self._model(
            encoder_outputs=self._encoded,
            decoder_input_ids=torch.tensor(tokens)[:, None],
            cache=self._cache,
            use_cache=True,
        )
        return greedy_but_end(output.logits[:, -1], self._model.config.eos_token_id)


def load_model(job: Job) -> PreTrainedModel:
    """The checkpoint in fp32, with the job's threads."""
    torch.set_num_threads(job.threads)
    model = AutoModelForSeq2SeqLM.from_pretrained(job.checkpoint, dtype=torch.float32)
    return model.eval().requires_grad_(False)


def greedy_but_end(logits_BV: torch.Tensor, end: int) -> list[int]:
    """The likeliest token of each row that is not end of sequence."""
    logits_BV[:, end] = -torch.inf
    return logits_BV.argmax(dim=-1).tolist()


if __name__ == "__main__":
    serve(lambda job: GreedyRival(job, EagerSeq2Seq(job)), ["transformers", "torch"])
