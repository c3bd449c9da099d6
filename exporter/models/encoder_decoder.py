"""What text and speech encoder-decoders share: cross caches written by `encode`, read by `decode`."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers.cache_utils import Cache, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput

from exporter.cache.attention_binding import positions_bT

from .fixed_capacity_model import FixedCapacityModel
from .merged_decoder import has_merged_attention, noted_caches, unread_masks


@dataclass
class EncoderOutput(BaseModelOutput):
    """States `[b, E, C]`, and the mask that some models look for beside them: lengths stand in for it."""

    attention_mask: Tensor | None = None


def encoder_decoder_cache(root: FixedCapacityModel, *, cross_is_written: bool) -> EncoderDecoderCache:
    """Caches in the form the decoders take; a written cross cache is read and never projected again."""
    if has_merged_attention(root.model.get_decoder()):
        return noted_caches(root)
    cache = EncoderDecoderCache(root.self_cache(), Cache(layers=list(root.cross_layers)))
    for layer in range(len(root.cross_layers)):
        cache.is_updated[layer] = cross_is_written
    return cache


class Encode(nn.Module):
    """`encode(source, enc_lengths[b]) -> int64[b]`: run the encoder, write every cross cache.

    The decoder is run on one dummy token so that its own layers project the encoder output; everything but the
    projections and the writes is dead code, which export removes. Only the encoder's lengths come back.
    """

    def __init__(self, root: FixedCapacityModel, source_name: str) -> None:
        super().__init__()
        self.root = root
        self.source_name = source_name

    def forward(self, source: Tensor, enc_lengths: Tensor) -> Tensor:
        return self.write(source, enc_lengths)

    def write(self, source: Tensor, enc_lengths: Tensor, sample_lengths: Tensor | None = None) -> Tensor:
        """Run the encoder and write its positions; `sample_lengths` int64 `[b]` where the source is sound."""
        root, step = self.root, self.root.step
        first = torch.zeros_like(enc_lengths)
        step.begin(enc_lengths=enc_lengths, encoding=True, positions=first, sample_lengths=sample_lengths)
        encoder_output = root.model.get_encoder()(**{self.source_name: source})[0]
        root.model(
            encoder_outputs=EncoderOutput(last_hidden_state=encoder_output),
            decoder_input_ids=torch.zeros_like(enc_lengths)[:, None],
            cache=encoder_decoder_cache(root, cross_is_written=False),
            use_cache=True,
            **unread_masks(root),
        )
        written = step.written_lengths
        if len(written) != len(root.cross_layers):
            raise ValueError(f"{len(root.cross_layers)} cross caches were planned and {len(written)} were written")
        return torch.stack(written).amin(dim=0)


class Decode(nn.Module):
    """`decode(tokens[b,t], positions[b], step_lengths[b], logit_rows[b,r], enc_lengths[b]) -> logits[b,r,V]`."""

    def __init__(self, root: FixedCapacityModel) -> None:
        super().__init__()
        self.root = root

    def forward(
        self, tokens: Tensor, positions: Tensor, step_lengths: Tensor, logit_rows: Tensor, enc_lengths: Tensor
    ) -> Tensor:
        root = self.root
        root.step.begin(positions=positions, step_lengths=step_lengths, logit_rows=logit_rows, enc_lengths=enc_lengths)
        unread_encoder_output = torch.zeros(tokens.shape[0], 1, root.plan.encoder_width)
        out = root.model(
            encoder_outputs=EncoderOutput(last_hidden_state=unread_encoder_output),
            decoder_input_ids=tokens,
            cache=encoder_decoder_cache(root, cross_is_written=True),
            use_cache=True,
            **self.rotary_positions(tokens),
            **unread_masks(root),
        )
        return out.logits.to(torch.float32)

    def rotary_positions(self, tokens: Tensor) -> dict[str, Tensor]:
        """The positions int64 `[b, t]` that a rotary decoder takes; others read them in a table or a bias."""
        root = self.root
        if not hasattr(root.model.get_decoder(), "rotary_emb"):
            return {}
        return {"decoder_position_ids": positions_bT(root.step, tokens.shape[1], root.plan.position_limit)}
