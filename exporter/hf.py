"""For users of transformers: bundles as models and in pipelines, and caches for stock `generate`."""

from __future__ import annotations

import torch
from transformers import PreTrainedModel

from exporter.drop_in.caches import FixedCapacityCache, FixedCapacityEncoderDecoderCache
from exporter.drop_in.plan import plan_caches
from exporter.hf_models.decoder_only import FixedCapacityModelForCausalLM
from exporter.hf_models.encoder_decoder import FixedCapacityModelForSeq2SeqLM
from exporter.hf_models.pipelines import pipeline
from exporter.hf_models.speech import FixedCapacityModelForSpeechSeq2Seq

__all__ = [
    "FixedCapacityCache",
    "FixedCapacityEncoderDecoderCache",
    "FixedCapacityModelForCausalLM",
    "FixedCapacityModelForSeq2SeqLM",
    "FixedCapacityModelForSpeechSeq2Seq",
    "fixed_capacity_cache",
    "pipeline",
]

DEFAULT_ASSISTANT_TOKENS = 20
"""What `generate` asks an assistant model for unless it is told otherwise (`num_assistant_tokens`)."""


def fixed_capacity_cache(
    model: PreTrainedModel,
    *,
    max_batch: int = 1,
    max_enc: int | None = None,
    max_dec: int,
    max_draft: int = DEFAULT_ASSISTANT_TOKENS,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> FixedCapacityCache | FixedCapacityEncoderDecoderCache:
    """A cache for `model.generate(..., cache=it)`, of any batch and any lengths up to the limits.

    Everything is allocated here and never again: results equal those without it, and the data pointers stay. Each
    `generate` call is a request of its own; see `FixedCapacityCache.continue_request` for conversations and `reset`
    for those who call the model themselves.

    Args:
        model: any model of transformers whose layers are full or sliding attention. It is only read.
        max_batch: most rows at once; beams and returned sequences count.
        max_enc: most encoder output positions (Whisper: 1500); encoder-decoder models only.
        max_dec: most decoder positions, prompt included; the context of a decoder-only model.
        max_draft: most tokens that sliding layers can take back at once, which is what an assistant drafts.
        dtype: of the buffers, where the model computes in another one than it is stored in.
        device: of the buffers, where it is not the model's.

    Raises:
        PlanError: a `ValueError` that lists every argument that is wrong and every layer that is not supported.
    """
    limits = {"max_batch": max_batch, "max_enc": max_enc, "max_dec": max_dec, "max_draft": max_draft}
    plan = plan_caches(model, limits, dtype, device)
    made = FixedCapacityCache if max_enc is None else FixedCapacityEncoderDecoderCache
    return made(plan)
