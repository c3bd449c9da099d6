"""Pipelines over bundles: those of transformers, and one of ours for text-to-text, which transformers 5 has no more."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from transformers import (
    AutoFeatureExtractor,
    AutomaticSpeechRecognitionPipeline,
    AutoTokenizer,
    Pipeline,
    Wav2Vec2FeatureExtractor,
)
from transformers import TextGenerationPipeline as StockTextGeneration

from exporter.hf_models.decoder_only import FixedCapacityModelForCausalLM
from exporter.hf_models.encoder_decoder import FixedCapacityModelForSeq2SeqLM
from exporter.hf_models.model import FixedCapacityModel
from exporter.hf_models.speech import FixedCapacityModelForSpeechSeq2Seq
from exporter.spec.faults import SpecError
from runtime_shims.contract.errors import UserInputError
from runtime_shims.reference.audio import AudioCut, read_mono, resample
from runtime_shims.reference.text import TOKENIZER_DIRECTORY, has_tokenizer

TEXT_TO_TEXT = {
    "translation": "translation_text",
    "summarization": "summary_text",
    "text2text-generation": "generated_text",
}
"""Tasks, and the key under which their pipelines answer."""
SPEECH = "automatic-speech-recognition"


class TaskError(SpecError):
    """A task that bundles do not have, or not this one."""


class TextGenerationPipeline(StockTextGeneration):
    """That of transformers, which looks for the class of a model in its own list and calls others unsupported."""

    def check_model_type(self, supported_models: Any) -> None:
        """Any model that generates will do."""


class SpeechPipeline(AutomaticSpeechRecognitionPipeline):
    """That of transformers, which needs ffmpeg for files; here they are read as `run-model generate` reads them."""

    @property
    def type(self) -> str:
        """What transformers takes the model for: `seq2seq_whisper` or `seq2seq`."""
        return self._type

    @type.setter
    def type(self, found: str) -> None:
        """transformers takes the class of a model that it does not know for one of CTC."""
        self._type = "seq2seq" if found == "ctc" else found

    def preprocess(self, inputs: Any, *args: Any, **options: Any) -> Iterator[Any]:
        """What the model hears: a file or a dictionary of samples, of any sampling rate; or what transformers takes."""
        rate = self.feature_extractor.sampling_rate
        if isinstance(inputs, os.PathLike) or (isinstance(inputs, str) and "://" not in inputs):
            inputs = {"raw": read_mono(Path(inputs), AudioCut(0.0, None), rate), "sampling_rate": rate}
        if isinstance(inputs, dict) and "stride" not in inputs:
            inputs = _at_rate(inputs, rate)
        yield from super().preprocess(inputs, *args, **options)


def _at_rate(inputs: dict[str, Any], rate: int) -> dict[str, Any]:
    """Samples [N] under `raw` or `array` at another rate; transformers would need torchaudio. Else as they are."""
    name, given = "raw" if "raw" in inputs else "array", inputs.get("sampling_rate")
    samples_N = np.asarray(inputs.get(name))
    if given in (None, rate) or samples_N.ndim != 1 or samples_N.dtype.kind != "f":
        return inputs
    return {**inputs, name: resample(samples_N.astype(np.float32), given, rate), "sampling_rate": rate}


class Text2TextPipeline(Pipeline):
    """Texts to texts with any encoder-decoder model: translation, summarization, and whatever else it has learned."""

    _pipeline_calls_generate = True
    _load_processor = False
    _load_image_processor = False
    _load_feature_extractor = False
    _load_tokenizer = True

    def __call__(self, inputs: Any, **options: Any) -> Any:
        """`[{key: text}]` for a text; for a list of texts one such dictionary each, or lists of them."""
        answers = super().__call__(inputs, **options)
        is_flat = isinstance(inputs, list) and all(len(answer) == 1 for answer in answers)
        return [answer[0] for answer in answers] if is_flat else answers

    def _sanitize_parameters(
        self, truncation: bool | None = None, prefix: str | None = None, **generate: Any
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        before = {"truncation": truncation, "prefix": prefix}
        return {name: value for name, value in before.items() if value is not None}, generate, {}

    def preprocess(self, text: str, truncation: bool = False, prefix: str | None = None) -> Any:
        """Token ids of the text behind the task's prefix, where the checkpoint's config names one (T5's do)."""
        if not isinstance(text, str):
            raise UserInputError(f"task {self.task} takes texts, got a {type(text).__name__}")
        settings = getattr(self.model.config, "task_specific_params", None) or {}
        prefix = settings.get(self.task, {}).get("prefix", "") if prefix is None else prefix
        return self.tokenizer(prefix + text, truncation=truncation, return_tensors="pt")

    def _forward(self, model_inputs: Any, **generate: Any) -> dict[str, Any]:
        names = ("input_ids", "attention_mask")
        inputs = {name: model_inputs[name] for name in names if name in model_inputs}
        return {"tokens": self.model.generate(**inputs, **self._prepare_generate_kwargs(generate))}

    def postprocess(self, model_outputs: dict[str, Any]) -> list[dict[str, str]]:
        """The text of each returned sequence, under the task's key."""
        key = TEXT_TO_TEXT.get(self.task, "translation_text" if "translation" in self.task else "generated_text")
        return [{key: self.tokenizer.decode(row, skip_special_tokens=True)} for row in model_outputs["tokens"]]


TASKS: dict[str, tuple[type[FixedCapacityModel], type[Pipeline]]] = {
    "text-generation": (FixedCapacityModelForCausalLM, TextGenerationPipeline),
    SPEECH: (FixedCapacityModelForSpeechSeq2Seq, SpeechPipeline),
    **dict.fromkeys(TEXT_TO_TEXT, (FixedCapacityModelForSeq2SeqLM, Text2TextPipeline)),
}


def pipeline(task: str, model: str | os.PathLike[str] | FixedCapacityModel, **options: Any) -> Pipeline:
    """A pipeline over a bundle, with the tokenizer and feature extractor that the bundle carries.

    Args:
        task: text-generation, automatic-speech-recognition, translation (or translation_XX_to_YY), summarization or
            text2text-generation.
        model: a model of this package, or what its `from_pretrained` takes.
        options: of the pipeline, such as `tokenizer`, `batch_size`, `chunk_length_s` and settings of `generate`.

    Raises:
        TaskError: there is no such task, or the bundle is for another one.
        UserInputError: a part that the bundle does not carry.
    """
    name = "translation" if task.startswith("translation_") else task
    if name not in TASKS:
        raise TaskError(f"task {task}", [f"bundles have none of this name; use one of {', '.join(TASKS)}"])
    model_class, pipeline_class = TASKS[name]
    opened = model_class.from_pretrained(model) if isinstance(model, str | os.PathLike) else model
    if not isinstance(opened, model_class):
        raise TaskError(f"task {task}", [f"it takes a {model_class.__name__}, got a {type(opened).__name__}"])
    parts = {"device": "cpu", **options}
    if parts.get("tokenizer") is None:
        parts["tokenizer"] = _tokenizer(opened)
    if task == SPEECH and parts.get("feature_extractor") is None:
        parts["feature_extractor"] = _extractor(opened)
    return pipeline_class(model=opened, task=task, **parts)


def _tokenizer(model: FixedCapacityModel) -> Any:
    """The bundle's tokenizer, able to pad a batch, and to cut a text to what the program takes."""
    if not has_tokenizer(model.bundle):
        raise UserInputError("the bundle carries no tokenizer; give tokenizer=, or export the model with its own")
    directory = str(model.bundle.root / TOKENIZER_DIRECTORY)
    tokenizer = AutoTokenizer.from_pretrained(directory, local_files_only=True)
    rules, limits = model.manifest.tokens, model.manifest.limits
    padding = rules.pad if rules.pad is not None else next(iter(rules.eos), None)
    if tokenizer.pad_token_id is None and padding is not None:
        tokenizer.pad_token_id = padding
    tokenizer.model_max_length = min(tokenizer.model_max_length, limits.max_enc or limits.max_dec)
    return tokenizer


def _extractor(model: FixedCapacityModel) -> Any:
    """The bundle's feature extractor; programs that take the sound itself need one that leaves it as it is."""
    speech = model.manifest.speech
    if speech is not None and model.manifest.sound_positions is not None:
        return Wav2Vec2FeatureExtractor(
            sampling_rate=speech.sampling_rate, do_normalize=False, return_attention_mask=True
        )
    if not any(entry.role == "preprocessor" for entry in model.manifest.files):
        raise UserInputError(
            "the bundle carries no feature extractor; give feature_extractor=, or export the model with its own"
        )
    directory = str(model.bundle.root / TOKENIZER_DIRECTORY)
    return AutoFeatureExtractor.from_pretrained(directory, local_files_only=True)
