"""Speech bundles as models of transformers: Whisper's loop over windows of sound, and sound of any length at once.

Shape legend: B rows, F mel channels, N frames of features, or samples of sound.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from transformers.models.whisper.generation_whisper import WhisperGenerationMixin

from exporter.hf_models.encoder_decoder import EncoderDecoder, EncoderInput
from exporter.hf_models.opening import OpenBundle
from exporter.hf_models.refusals import GenerateError
from exporter.hf_models.request_cache import check_mask
from runtime_shims.reference.request import SourceInput


class FixedCapacityModelForSpeechSeq2Seq(EncoderDecoder):
    """A speech bundle, for `generate` and `pipeline("automatic-speech-recognition")`."""

    kind = "speech_seq2seq"
    input_modalities = ("audio",)

    @classmethod
    def of_bundle(cls, opened: OpenBundle) -> FixedCapacityModelForSpeechSeq2Seq:
        """The model for what the program of `opened` takes: features (Whisper) or the sound itself (Moonshine)."""
        return SoundModel(opened) if opened.bundle.manifest.sound_positions is not None else FeatureModel(opened)


class FeatureModel(WhisperGenerationMixin, FixedCapacityModelForSpeechSeq2Seq):
    """A Whisper bundle: languages, timestamps, and windows over long sound are those of transformers."""

    main_input_name = "input_features"

    def __init__(self, opened: OpenBundle) -> None:
        """`opened` is a bundle whose program takes features, see `from_pretrained`."""
        super().__init__(opened)
        frames = opened.session.limits.source_shape[1] // self.config.max_source_positions  # type: ignore[index]
        strides = (SimpleNamespace(stride=(1,)), SimpleNamespace(stride=(frames,)))
        encoder = SimpleNamespace(conv1=strides[0], conv2=strides[1])
        self.model = SimpleNamespace(encoder=encoder, config=self.config)  # all that transformers' loop reads of it

    def generate(self, input_features: Tensor | None = None, *args: Any, **kwargs: Any) -> Any:
        """transformers' `generate` for Whisper; sound float32 [B, F, N] of any length.

        Raises GenerateError for timestamps of words, which need what programs do not return.
        """
        if kwargs.get("return_token_timestamps"):
            advice = "programs return no attention; use return_timestamps=True for those of sentences"
            raise GenerateError("generate", [f"timestamps of words: {advice}"])
        if input_features is not None:
            input_features = input_features.to(torch.float32)
        return super().generate(input_features, *args, **kwargs)

    def _postprocess_outputs(self, seek_outputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Without the request, which transformers would split into keys and values per row."""
        if not isinstance(seek_outputs, Tensor):
            kept = {name: value for name, value in seek_outputs.items() if name != "cache"}
            seek_outputs = type(seek_outputs)(**kept)
        return super()._postprocess_outputs(seek_outputs, *args, **kwargs)

    def _source(self, encoder_outputs: EncoderInput | None, attention_mask: Tensor | None) -> SourceInput | None:
        """Features, as they are: Whisper hears padding as silence."""
        return None if encoder_outputs is None else encoder_outputs.source


class SoundModel(FixedCapacityModelForSpeechSeq2Seq):
    """A Moonshine bundle: sound float32 [B, N] of any length up to the capacity, each row heard as if alone."""

    main_input_name = "input_values"

    def generate(
        self, inputs: Tensor | None = None, *args: Any, input_values: Tensor | None = None, **kwargs: Any
    ) -> Any:
        """transformers' `generate`; `attention_mask` [B, N] is 0 behind the samples of a row."""
        return super().generate(input_values if inputs is None else inputs, *args, **kwargs)

    def _source(self, encoder_outputs: EncoderInput | None, attention_mask: Tensor | None) -> SourceInput | None:
        """The samples of each row that are no padding."""
        source = None if encoder_outputs is None else encoder_outputs.source
        if source is None or source.dim() != 2:
            return source
        sound_BN = source.to(torch.float32)
        if attention_mask is None:
            return list(sound_BN)
        check_mask(attention_mask, sound_BN)
        return [row_N[mask_N.bool()] for row_N, mask_N in zip(sound_BN, attention_mask, strict=True)]
