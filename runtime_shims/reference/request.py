"""Checks of a request against a bundle, made before anything is written.

Shape legend: B batch rows, E encoder positions, N samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from runtime_shims.contract.errors import CapacityExceeded, UserInputError
from runtime_shims.contract.manifest import Limits, Manifest, Speech
from runtime_shims.contract.sound_positions import SoundPositions
from runtime_shims.reference.sound_rows import check_sounds, in_hops
from runtime_shims.reference.token_rows import TokenRow, TokenRows, check_lengths, check_tokens, items_of, rows_of

SourceInput: TypeAlias = TokenRows
"""Token ids, float32 speech features [B, *source_shape] as an array or tensor, or rows of sound, float32 [N] each."""
WaveformInput: TypeAlias = Tensor | np.ndarray
"""Sound, float32 [B, N]."""


@dataclass(frozen=True)
class EncoderSource:
    """A checked encoder input: ragged token ids, features or sound, and its output lengths.

    ids       source token ids per row, or None for speech
    features  float32 [B, *source_shape], or sound in hops [B, h, S], or None for text
    lengths   encoder output positions per row, 1..max_enc
    samples   samples per row of sound; None for anything else
    """

    ids: tuple[tuple[int, ...], ...] | None
    features: Tensor | None
    lengths: tuple[int, ...]
    samples: tuple[int, ...] | None = None


def check_prompts(prompts: TokenRows, manifest: Manifest) -> tuple[tuple[int, ...], ...]:
    """The decoder prompts as tuples. Raises when there are too many, or one is empty, too long or no list of ids."""
    limits = manifest.limits
    rows = rows_of(prompts, "the prompts")
    if len(rows) == 0:
        raise UserInputError("no prompt was given; a request needs at least one row")
    if len(rows) > limits.max_batch:
        raise CapacityExceeded(
            f"{len(rows)} prompts were given, the bundle runs at most {limits.max_batch} rows at once; "
            f"send fewer or export with a larger --max-batch"
        )
    return tuple(check_prompt(prompt, f"row {row}", manifest) for row, prompt in enumerate(rows))


def check_prompt(prompt: TokenRow, name: str, manifest: Manifest) -> tuple[int, ...]:
    """One prompt as a tuple; `name` names its row in messages. Raises when it is empty, too long or no list of ids."""
    where, capacity = f"the prompt of {name}", manifest.limits.max_dec
    length = len(items_of(prompt, where))
    if length == 0:
        raise UserInputError(f"{where} is empty; give it at least one token")
    if length > capacity:
        raise CapacityExceeded(
            f"{where} has {length} tokens, the decoder holds at most {capacity} positions; "
            f"shorten it or export with a larger --max-dec"
        )
    return check_tokens(prompt, manifest.tokens.vocab_size, where)


def check_source(
    source: SourceInput | None, enc_lengths: TokenRow | None, rows: int, manifest: Manifest
) -> EncoderSource | None:
    """The encoder input of `rows` rows, checked; None for a decoder-only bundle.

    Text takes ragged token ids or integers [B, E], of which `enc_lengths` positions per row are real
    (default: all). Speech takes float32 [B, *source_shape] and always fills the encoder, or rows of sound.
    """
    if manifest.kind == "decoder_only":
        if source is not None or enc_lengths is not None:
            raise UserInputError("the bundle is decoder-only: it takes prompts and no encoder input")
        return None
    if source is None:
        raise UserInputError(f"the bundle is {manifest.kind}: a request needs an encoder input per prompt")
    if manifest.speech is not None and manifest.speech.positions is not None:
        return _check_sound(source, enc_lengths, rows, manifest.speech, manifest.speech.positions)
    if manifest.kind == "speech_seq2seq":
        return _check_features(source, enc_lengths, rows, manifest.limits)
    return _check_source_ids(source, enc_lengths, rows, manifest)


def _check_features(source: SourceInput, enc_lengths: TokenRow | None, rows: int, limits: Limits) -> EncoderSource:
    expected = tuple(limits.source_shape or ())
    if isinstance(source, np.ndarray) and source.dtype == np.float32:
        source = torch.tensor(source)
    if not isinstance(source, Tensor) or source.dtype != torch.float32 or tuple(source.shape[1:]) != expected:
        is_array = isinstance(source, Tensor | np.ndarray)
        given = f"{source.dtype} {tuple(source.shape)}" if is_array else "token ids"  # type: ignore[union-attr]
        raise UserInputError(f"speech takes float32 features of shape [rows, {expected}], got {given}")
    _check_row_count(source.shape[0], rows)
    if not bool(torch.isfinite(source).all()):
        raise UserInputError("the speech features hold values that are not finite; check the audio")
    full = (_encoder_positions(limits),) * rows
    lengths = full if enc_lengths is None else check_lengths(enc_lengths, rows)
    if lengths != full:
        raise UserInputError(f"speech always fills the encoder: lengths must be {full[0]}, got {lengths}")
    return EncoderSource(ids=None, features=source.contiguous(), lengths=lengths)


def _check_sound(
    source: SourceInput, enc_lengths: TokenRow | None, rows: int, speech: Speech, positions: SoundPositions
) -> EncoderSource:
    sounds = check_sounds(source, speech, positions)
    _check_row_count(len(sounds), rows)
    if enc_lengths is not None:
        raise UserInputError("sound says itself how long it is: leave the lengths out")
    samples = tuple(map(len, sounds))
    lengths = tuple(map(positions.count, samples))
    return EncoderSource(ids=None, features=in_hops(sounds, positions.stride), lengths=lengths, samples=samples)


def check_waveform(waveform: WaveformInput, manifest: Manifest) -> Tensor:
    """Sound for method `features`: float32 [B, N] with the N of the manifest, zeros behind what is shorter."""
    speech = manifest.speech
    if speech is None:
        raise UserInputError("the bundle makes no speech features: its programs take them ready-made")
    if speech.positions is not None:
        raise UserInputError("the bundle makes no speech features: its programs take the sound itself")
    if isinstance(waveform, np.ndarray) and waveform.dtype == np.float32:
        waveform = torch.tensor(waveform)
    if not isinstance(waveform, Tensor) or waveform.dtype != torch.float32 or waveform.dim() != 2:
        given = f"{waveform.dtype} {tuple(waveform.shape)}" if hasattr(waveform, "shape") else type(waveform).__name__
        raise UserInputError(f"sound is float32 of shape [rows, {speech.samples}], got {given}")
    rows, samples = waveform.shape
    if samples != speech.samples:
        raise UserInputError(f"a row of sound has {speech.samples} samples, zeros behind shorter ones; got {samples}")
    if not 1 <= rows <= manifest.limits.max_batch:
        raise CapacityExceeded(
            f"{rows} rows of sound were given, the bundle takes 1 to {manifest.limits.max_batch} at once; "
            f"send fewer or export with a larger --max-batch"
        )
    if not bool(torch.isfinite(waveform).all()):
        raise UserInputError("the sound holds values that are not finite; check the audio")
    return waveform.contiguous()


def _check_source_ids(source: object, enc_lengths: TokenRow | None, rows: int, manifest: Manifest) -> EncoderSource:
    given = rows_of(source, "the encoder input")
    _check_row_count(len(given), rows)
    ids = [items_of(row_ids, f"the encoder input of row {row}") for row, row_ids in enumerate(given)]
    lengths = tuple(map(len, ids)) if enc_lengths is None else check_lengths(enc_lengths, rows)
    kept = [
        check_source_ids(row_ids, length, f"row {row}", manifest)
        for row, (row_ids, length) in enumerate(zip(ids, lengths, strict=True))
    ]
    return EncoderSource(ids=tuple(kept), features=None, lengths=lengths)


def check_source_ids(ids: TokenRow, length: int, name: str, manifest: Manifest) -> tuple[int, ...]:
    """The first `length` ids of one row. Raises when there are not so many, for none, too many or unknown ones."""
    where, capacity = f"the encoder input of {name}", _encoder_positions(manifest.limits)
    if length < 1 or length > len(ids):
        raise UserInputError(
            f"{where} has {length} real tokens of {len(ids)}; give at least one and no more than there are"
        )
    if length > capacity:
        raise CapacityExceeded(
            f"{where} has {length} tokens, the encoder holds at most {capacity} positions; "
            f"shorten it or export with a larger --max-enc"
        )
    return check_tokens(ids[:length], manifest.tokens.vocab_size, where)


def _check_row_count(sources: int, rows: int) -> None:
    if sources != rows:
        raise UserInputError(f"{sources} encoder inputs for {rows} prompts; give one per prompt")


def _encoder_positions(limits: Limits) -> int:
    if limits.max_enc is None:
        raise UserInputError("the bundle's manifest has an encoder and no max_enc; export it again")
    return limits.max_enc
