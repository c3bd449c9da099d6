"""Whisper bundles as models of transformers: its own loop over windows of sound, languages and timestamps.

Shape legend: B rows, F mel channels, N frames.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from transformers.models.whisper.generation_whisper import WhisperGenerationMixin

from exporter.hf_models.encoder_decoder import EncoderDecoder, EncoderInput
from exporter.hf_models.opening import LoadError, OpenBundle
from exporter.hf_models.refusals import GenerateError
from runtime_shims.reference.request import SourceInput


class FixedCapacityModelForSpeechSeq2Seq(WhisperGenerationMixin, EncoderDecoder):
    """A Whisper bundle, for `generate` and `pipeline("automatic-speech-recognition")`."""

    kind = "speech_seq2seq"
    main_input_name = "input_features"
    input_modalities = ("audio",)

    def __init__(self, opened: OpenBundle) -> None:
        """`opened` is a bundle of this kind, see `from_pretrained`.

        Raises LoadError for programs that take sound of any length.
        """
        super().__init__(opened)
        shape = opened.session.limits.source_shape
        if shape is None:
            fault = "its program takes sound of any length, transformers' loop here gives Whisper's features"
            raise LoadError(opened.name, [f"{fault}; use run-model generate --audio"])
        frames = shape[1] // self.config.max_source_positions
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
