"""`ModelSource`: everything read from a model's files, strictly and only when asked for."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from exporter.spec.families import FAMILIES
from exporter.spec.faults import ModelSourceError, SpecError, one_line
from exporter.spec.gguf_reading import quick_reading
from exporter.spec.hearing import published_extractor
from exporter.spec.model_location import ModelLocation, locate
from exporter.spec.model_spec import ModelSpec
from exporter.spec.parameters import auto_class
from exporter.spec.progress import Progress, SilentProgress
from exporter.spec.recipe import Recipe
from exporter.spec.text_part import COMPOSITES, drop_image_tower, text_part, text_weights, without_other_parts
from exporter.spec.weights import random_assistant, random_model, require_complete
from runtime_shims.contract.manifest import ModelKind

if TYPE_CHECKING:
    import torch
    from transformers import GenerationConfig, PretrainedConfig, PreTrainedModel

_TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "spiece.model",
    "source.spm",
    "vocab.json",
)
_PROCESSOR_FILES = ("preprocessor_config.json", "processor_config.json")


@dataclass(frozen=True)
class ModelSource:
    """One model's files. Nothing is read before a `load_` method is called.

    Attributes:
        model: the name as the user gave it, for messages.
        location: where the files are.
        random_weights, seed: make seeded weights instead of reading a checkpoint.
    """

    model: str
    location: ModelLocation
    random_weights: bool
    seed: int

    @property
    def name(self) -> str:
        """Hub id, directory name or file name; never a path of this machine."""
        return self.location.name

    @property
    def revision(self) -> str | None:
        """Commit of the Hub repository, where there is one."""
        return self.location.revision

    def load_config(self) -> PretrainedConfig:
        """The model's config.

        Raises:
            ModelSourceError: it is absent, unreadable, or of a type that transformers does not know.
        """
        return copy.deepcopy(text_part(self._config))

    @property
    def is_text_part(self) -> bool:
        """Whether the files also hold an image or sound encoder, which is left out."""
        return self._config.model_type in COMPOSITES

    def load_model(self, progress: Progress | None = None) -> PreTrainedModel:
        """The complete model in float32, in evaluation mode, without gradients.

        Raises:
            ModelSourceError: weights are missing, left over or of another shape; lists their names.
        """
        import torch

        progress = progress or SilentProgress()
        config = self.load_config()
        spec = ModelSpec.from_config(config)
        if self.random_weights:
            progress.stage(f"making {spec.parameter_count:,} random weights")
            return random_model(config, spec, self.seed)
        progress.stage("loading weights")
        model = self.read_weights(spec.kind, config, torch.float32)
        if self.location.gguf_file is not None:  # it is dequantized now, and must save as such
            model.config.quantization_config = None
            model.hf_quantizer = None
            model.is_quantized = False
        finished: PreTrainedModel = model.eval().requires_grad_(False)
        return finished

    def load_assistant(self) -> PreTrainedModel:
        """A model that drafts over the caches of another, as `load_model` gives others.

        Raises:
            ModelSourceError: weights are missing, left over or of another shape; lists their names.
        """
        import torch

        config = self.load_config()
        if self.random_weights:
            return random_assistant(config, self.seed)
        model = self.read_weights("decoder_only", config, torch.float32)
        return model.eval().requires_grad_(False)

    def read_weights(
        self, kind: ModelKind, config: PretrainedConfig, dtype: torch.dtype | Literal["auto"]
    ) -> PreTrainedModel:
        """The complete model as transformers loads it.

        Raises:
            ModelSourceError: weights are missing, left over or of another shape; lists their names.
        """
        with self._reading("weights"):
            model, report = auto_class(kind).from_pretrained(
                self._path,
                config=config,
                dtype=dtype,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # so that they are reported with the others
                **self._dense_weights(),
                **text_weights(self._config),
                **self._arguments,
            )
        require_complete(self.model, model, without_other_parts(report) if self.is_text_part else report)
        drop_image_tower(model)
        return model

    def load_generation_config(self) -> GenerationConfig:
        """The checkpoint's generation settings, or those its config implies.

        Raises:
            ModelSourceError: the file is there and cannot be read.
        """
        from transformers import GenerationConfig

        if self.location.gguf_file is None and self.has_file(("generation_config.json",)):
            with self._reading("generation settings"):
                return GenerationConfig.from_pretrained(self._path, **self._arguments)
        return GenerationConfig.from_model_config(self.load_config().to_dict() | self._legacy_settings())

    def load_tokenizer(self) -> Any | None:
        """The tokenizer, or None when the source has none.

        Raises:
            ModelSourceError: its files are there and cannot be read.
        """
        from transformers import AutoTokenizer

        if self.location.gguf_file is None and not self.has_file(_TOKENIZER_FILES):
            return None
        with self._reading("tokenizer"):
            return AutoTokenizer.from_pretrained(self._path, **self._arguments)

    def load_processor(self) -> Any | None:
        """What turns sound into a speech model's input; None for text, or when the source has none.

        Raises:
            ModelSourceError: its files are there and cannot be read.
        """
        from transformers import AutoFeatureExtractor

        config = self.load_config()
        family = FAMILIES.get(config.model_type)
        if family is None or family.kind != "speech_seq2seq":
            return None
        if self.location.geometry is not None:
            return published_extractor(config, family)
        if not self.has_file(_PROCESSOR_FILES):
            return None
        with self._reading("preprocessor"):
            return AutoFeatureExtractor.from_pretrained(self._path, **self._arguments)

    @cached_property
    def _config(self) -> PretrainedConfig:
        """Read once: the config of a `.gguf` file takes seconds, its vocabulary is part of it."""
        from transformers import AutoConfig

        with self._reading("config"):
            if self.location.geometry is not None:
                return AutoConfig.for_model(**self.location.geometry)
            return AutoConfig.from_pretrained(self._path, **self._arguments)

    def _legacy_settings(self) -> dict[str, Any]:
        """Generation settings that an older checkpoint keeps in its config; config classes drop them."""
        from transformers import GenerationConfig, PretrainedConfig

        written: dict[str, Any] = {}
        if self.location.geometry is not None:
            written = self.location.geometry
        elif self.location.gguf_file is None:
            with self._reading("config"):
                written, _ = PretrainedConfig.get_config_dict(self._path, **self._arguments)
        known = GenerationConfig().to_dict().keys()
        return {key: value for key, value in written.items() if key in known and value is not None}

    @property
    def _path(self) -> str:
        if self.location.path is None:
            raise ModelSourceError(self.model, ["a geometry has no files; use --random-weights"])
        return self.location.path

    @property
    def _arguments(self) -> dict[str, Any]:
        """What every `from_pretrained` call of this source passes."""
        arguments: dict[str, Any] = {"trust_remote_code": False}
        if self.location.gguf_file is not None:
            arguments["gguf_file"] = self.location.gguf_file
        if self._is_local:
            arguments["local_files_only"] = True
        else:
            arguments["revision"] = self.location.revision
        return arguments

    def _dense_weights(self) -> dict[str, Any]:
        """GGUF blocks become plain float32, whatever kernels for the blocks this machine has."""
        from transformers import GgufConfig

        if self.location.gguf_file is None:
            return {}
        return {"quantization_config": GgufConfig(dequantize=True)}

    @property
    def _is_local(self) -> bool:
        return self.location.path is None or Path(self.location.path).is_dir()

    def has_file(self, names: tuple[str, ...]) -> bool:
        """Whether the source holds any file of these names."""
        if self.location.path is None:
            return False
        if self._is_local:
            return any((Path(self.location.path) / name).is_file() for name in names)
        from huggingface_hub import file_exists

        with self._reading("file list"):
            return any(file_exists(self.location.path, name, revision=self.location.revision) for name in names)

    def files(self) -> Path:
        """The directory where a checkpoint's files are, once they have been read."""
        if self._is_local:
            return Path(self._path)
        from transformers.utils import cached_file

        config = cached_file(self._path, "config.json", revision=self.location.revision)
        return Path(config).parent

    @contextmanager
    def _reading(self, part: str) -> Iterator[None]:
        """Turn whatever a library raises while it reads `part` into one line about this model."""
        try:
            with quick_reading() if self.location.gguf_file is not None else nullcontext():
                yield
        except SpecError:
            raise
        except Exception as error:  # libraries raise anything from KeyError to UnicodeDecodeError here
            raise ModelSourceError(self.model, [f"its {part} cannot be read: {one_line(error)}"]) from error


def resolve_source(recipe: Recipe) -> ModelSource:
    """Find the model that `recipe` names.

    Raises:
        ModelSourceError: it is neither a local checkpoint, a known geometry nor a reachable Hub id.
    """
    location = locate(recipe.model, random_weights=recipe.random_weights)
    return ModelSource(recipe.model, location, recipe.random_weights, recipe.seed)
