"""The two spellings that an exported program can use: the fused C++ operator, or core operators."""

from __future__ import annotations

import torch
from torch import Tensor

from . import core_form
from .attention_binding import Attend, Spelling
from .cached_attention import operators


class FusedSpelling:
    """One `fixed_capacity::*` operator per attention; live positions only, caches written in place."""

    flat_caches = False

    def __init__(self) -> None:
        self.ops = operators()

    def self_attention(self, call: Attend, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        layer, step = call.layer, call.step
        table, origin = _table(call)
        return self.ops.cached_attention(
            query.contiguous(), key.contiguous(), value.contiguous(), layer.key_cache, layer.value_cache,
            step.positions, step.step_lengths, table, origin, layer.window, call.scale, call.softcap,
        )

    def cross_attention(self, call: Attend, query: Tensor) -> Tensor:
        layer = call.layer
        return self.ops.cross_attention(
            query.contiguous(), layer.key_cache, layer.value_cache, call.step.enc_lengths, call.scale, call.softcap
        )

    def encoder_attention(self, call: Attend, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        table, origin = _table(call)
        return self.ops.encoder_attention(
            query.contiguous(), key.contiguous(), value.contiguous(), call.step.enc_lengths, table, origin,
            call.scale, call.softcap,
        )

    def write_cross(self, call: Attend, key: Tensor, value: Tensor) -> Tensor:
        layer = call.layer
        return self.ops.write_cross(
            key.contiguous(), value.contiguous(), layer.key_cache, layer.value_cache, call.step.enc_lengths
        )


class CoreSpelling:
    """Core ATen operators over flat caches; runs on any ExecuTorch runtime."""

    flat_caches = True

    def self_attention(self, call: Attend, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        layer, step = call.layer, call.step
        step_tokens = query.shape[2]
        written = torch.arange(step_tokens) < step.step_lengths[:, None]
        slots = torch.remainder(step.positions[:, None] + torch.arange(step_tokens), layer.slots)
        core_form.write_flat(layer.key_cache, key, slots, written, layer.slots)
        core_form.write_flat(layer.value_cache, value, slots, written, layer.slots)
        mask_bias = self._self_mask(call, step_tokens)
        out = core_form.attend_cache(query, *layer.views_BKSD(), mask_bias, call.scale, call.softcap)
        return torch.where(written[:, :, None, None], out, 0.0)

    def _self_mask(self, call: Attend, step_tokens: int) -> Tensor:
        """Mask, plus bias where there is one; made once per step for all layers of one geometry."""
        layer, step = call.layer, call.step
        key = (layer.slots, layer.window, id(call.bias))
        if key not in step.masks:
            mask, distances = core_form.self_mask(
                step.positions, step.step_lengths, step_tokens, layer.rows, layer.slots, layer.window
            )
            if call.bias is not None:
                mask = mask + core_form.bias_from_table(call.bias.table_HN, distances, call.bias.origin)
            step.masks[key] = mask
        return step.masks[key]

    def cross_attention(self, call: Attend, query: Tensor) -> Tensor:
        layer, lengths = call.layer, call.step.enc_lengths
        if "cross" not in call.step.masks:
            call.step.masks["cross"] = core_form.length_mask(lengths, layer.rows, layer.slots)
        mask = call.step.masks["cross"]
        out = core_form.attend_cache(query, *layer.views_BKSD(), mask, call.scale, call.softcap)
        return torch.where((lengths > 0)[:, None, None, None], out, 0.0)

    def encoder_attention(self, call: Attend, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        lengths, places = call.step.enc_lengths, query.shape[2]
        inside = torch.arange(places) < lengths[:, None]
        mask_key = ("encoder", id(call.bias))
        if mask_key not in call.step.masks:
            mask = torch.where(inside, 0.0, core_form.MASKED_SCORE)[:, None, None, :]
            if call.bias is not None:
                distances = (torch.arange(places)[:, None] - torch.arange(places)[None, :])[None]
                mask = mask + core_form.bias_from_table(call.bias.table_HN, distances, call.bias.origin)
            call.step.masks[mask_key] = mask
        out = core_form.attend(query, key, value, call.step.masks[mask_key], call.scale, call.softcap)
        return torch.where(inside[:, :, None, None], out, 0.0)

    def write_cross(self, call: Attend, key: Tensor, value: Tensor) -> Tensor:
        layer, lengths = call.layer, call.step.enc_lengths
        places = torch.arange(key.shape[2])
        slots = places[None, :].expand(key.shape[0], key.shape[2])
        written = places < lengths[:, None]
        core_form.write_flat(layer.key_cache, key, slots, written, layer.slots)
        core_form.write_flat(layer.value_cache, value, slots, written, layer.slots)
        return lengths.clone()


def _table(call: Attend) -> tuple[Tensor | None, int]:
    return (None, 0) if call.bias is None else (call.bias.table_HN, call.bias.origin)


def spelling_for(attention: str) -> Spelling:
    """`fused` or `portable`. Raises ValueError for anything else."""
    if attention == "fused":
        return FusedSpelling()
    if attention == "portable":
        return CoreSpelling()
    raise ValueError(f"attention must be fused or portable, got {attention!r}")
