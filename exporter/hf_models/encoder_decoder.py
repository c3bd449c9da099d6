"""Encoder-decoder bundles of text as models of transformers, and what they share with those of speech.

Shape legend: B rows, T tokens of a call, E encoder positions, K tokens with logits, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers.modeling_outputs import Seq2SeqLMOutput
from transformers.utils import ModelOutput

from exporter.hf_models.model import FixedCapacityModel
from exporter.hf_models.refusals import check_forward
from exporter.hf_models.request_cache import RequestCache, real_tokens
from runtime_shims.reference.request import SourceInput


@dataclass
class EncoderInput(ModelOutput):
    """Where transformers keeps what an encoder said: here what it is given. A program encodes as a request begins."""

    source: Tensor | None = None


class EncoderDecoder(FixedCapacityModel):
    """A bundle with an encoder."""

    @torch.no_grad()
    def forward(
        self,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: EncoderInput | None = None,
        cache: RequestCache | None = None,
        logits_to_keep: int = 0,
        use_cache: bool | None = None,
        **others: Any,
    ) -> Seq2SeqLMOutput:
        """Write decoder tokens int64 [B, T] to `cache`, or to a new request; logits float32 [B, K, V], K = T for 0.

        The encoder input is the argument `main_input_name`, of which `attention_mask` [B, E] says what is padding.
        Raises GenerateError for what programs do not take, UserInputError or CapacityExceeded.
        """
        source = others.pop(self.main_input_name, None)
        tokens = {"decoder_input_ids": decoder_input_ids}
        tokens_BT = check_forward(tokens, cache, logits_to_keep, others, self._shared)
        if cache is None:
            given = EncoderInput(source) if encoder_outputs is None else encoder_outputs
            cache = RequestCache(self._shared, self._source(given, attention_mask))
        logits_BKV = self._logits(cache, tokens_BT, decoder_attention_mask, logits_to_keep)
        return Seq2SeqLMOutput(logits=logits_BKV, cache=cache)

    def _prepare_text_encoder_decoder_kwargs_for_generation(
        self, inputs_tensor: Tensor, model_kwargs: dict[str, Any], *args: Any, **kwargs: Any
    ) -> dict[str, Any]:
        model_kwargs["encoder_outputs"] = EncoderInput(inputs_tensor)
        return model_kwargs


class FixedCapacityModelForSeq2SeqLM(EncoderDecoder):
    """A bundle of a text encoder-decoder, for `generate` and `exporter.hf.pipeline`."""

    kind = "text_seq2seq"

    def _source(self, encoder_outputs: EncoderInput | None, attention_mask: Tensor | None) -> SourceInput | None:
        """The encoder's token ids without padding."""
        source = None if encoder_outputs is None else encoder_outputs.source
        return None if source is None else real_tokens(source, attention_mask)
