"""Checks of a request against a bundle, made before anything is written.

Shape legend: B batch rows, E encoder positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from runtime_shims.contract.errors import CapacityExceeded, UserInputError
from runtime_shims.contract.manifest import Limits, Manifest

SourceInput: TypeAlias = Sequence[Sequence[int]] | Tensor


@dataclass(frozen=True)
class EncoderSource:
    """A checked encoder input: token ids (ragged, or padded features) and its output lengths.

    ids       source token ids per row, or None for speech
    features  float32 [B, *source_shape], or None for text
    lengths   encoder output positions per row, 1..max_enc
    """

    ids: tuple[tuple[int, ...], ...] | None
    features: Tensor | None
    lengths: tuple[int, ...]


def check_prompts(prompts: Sequence[Sequence[int]], manifest: Manifest) -> tuple[tuple[int, ...], ...]:
    """The decoder prompts as tuples. Raises when there are too many, or one is empty or too long."""
    limits = manifest.limits
    if not prompts:
        raise UserInputError("no prompt was given; a request needs at least one row")
    if len(prompts) > limits.max_batch:
        raise CapacityExceeded(
            f"{len(prompts)} prompts were given, the bundle runs at most {limits.max_batch} rows at once; "
            f"send fewer or export with a larger --max-batch"
        )
    for row, prompt in enumerate(prompts):
        if len(prompt) == 0:
            raise UserInputError(f"the prompt of row {row} is empty; give it at least one token")
        if len(prompt) > limits.max_dec:
            raise CapacityExceeded(
                f"the prompt of row {row} has {len(prompt)} tokens, the decoder holds at most "
                f"{limits.max_dec} positions; shorten it or export with a larger --max-dec"
            )
        check_tokens(prompt, manifest.tokens.vocab_size, f"the prompt of row {row}")
    return tuple(tuple(prompt) for prompt in prompts)


def check_tokens(tokens: Sequence[int], vocab_size: int, where: str) -> None:
    """Raise UserInputError for a token id outside the vocabulary, or one that is no integer."""
    for token in tokens:
        if not hasattr(token, "__index__") or not 0 <= token < vocab_size:
            raise UserInputError(f"{where} has token id {token}; ids are 0..{vocab_size - 1}")


def check_source(
    source: SourceInput | None, enc_lengths: Sequence[int] | None, rows: int, manifest: Manifest
) -> EncoderSource | None:
    """The encoder input of `rows` rows, checked; None for a decoder-only bundle.

    Text takes ragged token ids or an int64 [B, E] tensor, of which `enc_lengths` positions per row
    are real (default: all). Speech takes float32 [B, *source_shape] and always fills the encoder.
    """
    if manifest.kind == "decoder_only":
        if source is not None or enc_lengths is not None:
            raise UserInputError("the bundle is decoder-only: it takes prompts and no encoder input")
        return None
    if source is None:
        raise UserInputError(f"the bundle is {manifest.kind}: a request needs an encoder input per prompt")
    if len(source) != rows:
        raise UserInputError(f"{len(source)} encoder inputs for {rows} prompts; give one per prompt")
    if manifest.kind == "speech_seq2seq":
        return _check_features(source, enc_lengths, manifest.limits)
    return _check_source_ids(source, enc_lengths, manifest)


def _check_features(source: SourceInput, enc_lengths: Sequence[int] | None, limits: Limits) -> EncoderSource:
    expected = tuple(limits.source_shape or ())
    if not isinstance(source, Tensor) or source.dtype != torch.float32 or tuple(source.shape[1:]) != expected:
        given = f"{source.dtype} {tuple(source.shape)}" if isinstance(source, Tensor) else "token ids"
        raise UserInputError(f"speech takes float32 features of shape [rows, {expected}], got {given}")
    if not bool(torch.isfinite(source).all()):
        raise UserInputError("the speech features hold values that are not finite; check the audio")
    rows = source.shape[0]
    full = (_encoder_positions(limits),) * rows
    lengths = full if enc_lengths is None else tuple(int(length) for length in enc_lengths)
    if lengths != full:
        raise UserInputError(f"speech always fills the encoder: lengths must be {full[0]}, got {lengths}")
    return EncoderSource(ids=None, features=source.contiguous(), lengths=lengths)


def _check_source_ids(
    source: SourceInput, enc_lengths: Sequence[int] | None, manifest: Manifest
) -> EncoderSource:
    ids = source.tolist() if isinstance(source, Tensor) else source
    lengths = [len(row) for row in ids] if enc_lengths is None else [int(length) for length in enc_lengths]
    if len(lengths) != len(ids):
        raise UserInputError(f"{len(lengths)} encoder lengths for {len(ids)} encoder inputs")
    capacity = _encoder_positions(manifest.limits)
    for row, (row_ids, length) in enumerate(zip(ids, lengths, strict=True)):
        if length < 1 or length > len(row_ids):
            raise UserInputError(
                f"the encoder input of row {row} has {length} real tokens of {len(row_ids)}; "
                f"give at least one and no more than there are"
            )
        if length > capacity:
            raise CapacityExceeded(
                f"the encoder input of row {row} has {length} tokens, the encoder holds at most {capacity} "
                f"positions; shorten it or export with a larger --max-enc"
            )
        check_tokens(row_ids[:length], manifest.tokens.vocab_size, f"the encoder input of row {row}")
    kept = tuple(tuple(row[:length]) for row, length in zip(ids, lengths, strict=True))
    return EncoderSource(ids=kept, features=None, lengths=tuple(lengths))


def _encoder_positions(limits: Limits) -> int:
    if limits.max_enc is None:
        raise UserInputError("the bundle's manifest has an encoder and no max_enc; export it again")
    return limits.max_enc
