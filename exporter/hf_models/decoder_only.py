"""Decoder-only bundles as models of transformers.

Shape legend: B rows, T tokens of a call, K tokens with logits, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers.modeling_outputs import CausalLMOutputWithPast

from exporter.hf_models.model import FixedCapacityModel
from exporter.hf_models.refusals import check_forward
from exporter.hf_models.request_cache import RequestCache


class FixedCapacityModelForCausalLM(FixedCapacityModel):
    """A bundle of a decoder-only model, for `generate` and `pipeline("text-generation")`."""

    kind = "decoder_only"

    @torch.no_grad()
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        cache: RequestCache | None = None,
        logits_to_keep: int = 0,
        use_cache: bool | None = None,
        **others: Any,
    ) -> CausalLMOutputWithPast:
        """Write tokens int64 [B, T] to `cache`, or to a new request; logits float32 [B, K, V], K = T for 0.

        `attention_mask` is 0 for padding, on the left of prompts; its last T columns count.
        Raises GenerateError for what programs do not take, UserInputError or CapacityExceeded.
        """
        tokens_BT = check_forward({"input_ids": input_ids}, cache, logits_to_keep, others, self._shared)
        cache = RequestCache(self._shared, None) if cache is None else cache
        logits_BKV = self._logits(cache, tokens_BT, attention_mask, logits_to_keep)
        return CausalLMOutputWithPast(logits=logits_BKV, cache=cache)
