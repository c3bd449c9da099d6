"""What all bundles are as models of transformers: a forward over the program, under transformers' own `generate`.

Shape legend: B rows, T tokens of a call, E encoder positions, K tokens with logits, V vocabulary.
"""

from __future__ import annotations

import inspect
import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor
from transformers import GenerationConfig, LogitsProcessorList, PretrainedConfig
from transformers.generation.configuration_utils import GenerationMode
from transformers.generation.utils import GenerationMixin

from exporter.hf_models.drafts import DraftsThatFit
from exporter.hf_models.opening import OpenBundle, open_bundle
from exporter.hf_models.processors import quick
from exporter.hf_models.refusals import check_generate
from exporter.hf_models.request_cache import RequestCache, SharedSession, real_tokens
from exporter.hf_models.row_ends import RowEnds
from exporter.hf_models.saving import check_options, push_bundle, save_bundle
from exporter.hf_models.torch_threads import one_torch_thread
from runtime_shims.contract.errors import UnsupportedSetting
from runtime_shims.contract.manifest import Manifest, ModelKind
from runtime_shims.reference.request import SourceInput
from runtime_shims.reference.session import Session

CPU = torch.device("cpu")
LOOP = ("inputs", "logits_processor", "stopping_criteria", "streamer", "synced_gpus", "prefix_allowed_tokens_fn")
"""Arguments of `generate` that are no settings."""
POSITIONAL = tuple(inspect.signature(GenerationMixin.generate).parameters)[1:]
"""Arguments of `generate` in transformers' order."""


class FixedCapacityModel(GenerationMixin, ABC):
    """A bundle that `generate`, pipelines and streamers of transformers take for a model; it runs on the CPU.

    Subclasses say which kind of bundle they are. One request uses the program at a time; those of other threads wait.
    """

    kind: ClassVar[ModelKind]
    main_input_name = "input_ids"
    base_model_prefix = "program"
    input_modalities: tuple[str, ...] = ("text",)
    _is_stateful = False

    def __init__(self, opened: OpenBundle) -> None:
        """`opened` is a bundle of this kind, see `from_pretrained`."""
        self.bundle = opened.bundle
        self.session: Session = opened.session
        self.config: PretrainedConfig = opened.config
        self.generation_config: GenerationConfig = opened.generation_config
        self._shared = SharedSession(opened.session)
        self._temporary = opened.temporary
        self.name_or_path = opened.name

    @classmethod
    def from_pretrained(cls, model: str | os.PathLike[str], **options: Any) -> FixedCapacityModel:
        """Open a bundle, or export a model first.

        Args:
            model: directory or Hub id of a bundle; with `export=True` what export-model takes.
            options: `backend` and `threads` of the program that runs, and `check_hashes` (default: True) of its files;
                `revision`, `token`, `cache_dir` and `local_files_only` for the Hub; `export`, and with it the options
                of export-model by the names of `Recipe` (`max_batch=8`), `recipe` and `device` to start from a named
                recipe, `greedy`, `max_memory` and `verify`; `output`, where to keep the bundle, and `force` to replace
                one.

        Raises:
            UserInputError: an option that does not exist, or a bundle of another kind.
            BundleError: there is no bundle, or it is damaged.
        """
        return cls.of_bundle(open_bundle(model, cls.kind, options))

    @classmethod
    def of_bundle(cls, opened: OpenBundle) -> FixedCapacityModel:
        """The model over a bundle that is open, which is one of this kind."""
        return cls(opened)

    @property
    def manifest(self) -> Manifest:
        return self.bundle.manifest

    @property
    def device(self) -> torch.device:
        return CPU

    @property
    def dtype(self) -> torch.dtype:
        """Of what goes in and comes out, whatever the program computes in."""
        return torch.float32

    @classmethod
    def can_generate(cls) -> bool:
        return True

    @classmethod
    def is_remote_code(cls) -> bool:
        return False

    def get_experts_implementation(self) -> dict[str, str | None]:
        """None to choose: experts are in the program."""
        return {}

    def to(self, *args: Any, **kwargs: Any) -> FixedCapacityModel:
        """Itself. Raises UnsupportedSetting for anything but the CPU and float32."""
        for value in (*args, *kwargs.values()):
            if isinstance(value, torch.dtype) and value != self.dtype:
                raise UnsupportedSetting(f"{value}: a program has its types; export another with --dtype")
            is_number = isinstance(value, int) and not isinstance(value, bool)  # of an accelerator
            if is_number or (isinstance(value, str | torch.device) and torch.device(value).type != "cpu"):
                raise UnsupportedSetting(f"{value}: bundles run on the CPU here; give device='cpu'")
        return self

    def eval(self) -> FixedCapacityModel:
        """Itself: a program only infers."""
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Refused: a program that is loaded stays in its process, and is one."""
        raise UnsupportedSetting("a loaded program is neither copied nor pickled; open the bundle once more")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    @abstractmethod
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Write a call's tokens and return their logits, as transformers' models of the kind do."""

    def generate(self, *args: Any, **kwargs: Any) -> Any:
        """transformers' `generate`; what a program cannot do is refused in one line, see `refusals`.

        Raises GenerateError, UserInputError, or CapacityExceeded.
        """
        arguments = {**dict(zip(POSITIONAL, args, strict=False)), **kwargs}
        config, _ = self._prepare_generation_config(**{"generation_config": None, **_settings(arguments)})
        check_generate(config, arguments, self._shared)
        with self._shared.lock, one_torch_thread():
            return super().generate(*args, **kwargs)

    def init_continuous_batching(self, *args: Any, **kwargs: Any) -> Any:
        """Refused, and `generate_batch` with it: rows of a request begin together."""
        raise UnsupportedSetting("continuous batching: rows of a request begin together; give them to generate at once")

    def save_pretrained(self, save_directory: str | os.PathLike[str], push_to_hub: bool = False, **kwargs: Any) -> None:
        """Copy the bundle to a directory, with a model card; with `push_to_hub` upload it too.

        `kwargs`: `license`, which goes into the card; with `push_to_hub` its options, and `repo_id` (default: the name
        of the directory).

        Raises:
            UserInputError: an option that does not exist.
            OutputError: the directory is a file, or holds another bundle or a checkpoint.
            SaveFailed: it cannot be written.
        """
        repo_id = kwargs.pop("repo_id", Path(save_directory).name)
        check_options("save_pretrained", kwargs)
        save_bundle(self.bundle, Path(save_directory), kwargs.get("license"))
        if push_to_hub:
            self.push_to_hub(repo_id, **kwargs)

    def push_to_hub(self, repo_id: str, **options: Any) -> str:
        """Upload the bundle and its model card; returns the address of the commit.

        `options`: `private`, `token`, `revision`, `create_pr`, `commit_message`, `commit_description`, and `license`,
        which goes into the card. Raises PushFailed with what the Hub said.
        """
        return push_bundle(self.bundle, repo_id, options)

    def _logits(
        self, cache: RequestCache, tokens_BT: Tensor, mask: Tensor | None, logits_to_keep: int
    ) -> Tensor:
        """Write tokens int64 [B, T]; logits of the last `logits_to_keep` (0: of all), float32 [B, K, V]."""
        columns = tokens_BT.shape[1]
        is_of_all = mask is not None and mask.shape[1] == cache.get_seq_length() + columns
        mask_BT = mask[:, -columns:] if mask is not None and is_of_all else mask
        return cache.write(tokens_BT, mask_BT, min(logits_to_keep, columns) or columns)

    def _source(self, encoder_outputs: Any, attention_mask: Tensor | None) -> SourceInput | None:
        """The encoder input of a request that begins; decoder-only models have none."""
        return None

    def _mask_name(self) -> str:
        return "decoder_attention_mask" if self.config.is_encoder_decoder else "attention_mask"

    def _expand_inputs_for_generation(self, *args: Any, **kwargs: Any) -> tuple[Tensor, dict[str, Any]]:
        """As transformers does; the request begins with what comes of it."""
        input_ids, model_kwargs = super()._expand_inputs_for_generation(*args, **kwargs)
        if model_kwargs.get("cache") is None:
            source = self._source(model_kwargs.get("encoder_outputs"), model_kwargs.get("attention_mask"))
            model_kwargs["cache"] = RequestCache(self._shared, source)
        mask = model_kwargs.get(self._mask_name())
        model_kwargs["cache"].resume(0 if mask is None else int((mask == 0).sum(1).max()))
        return input_ids, model_kwargs

    def _prepare_cache_for_generation(
        self,
        generation_config: GenerationConfig,
        model_kwargs: dict[str, Any],
        generation_mode: GenerationMode,
        batch_size: int,
        max_cache_length: int,
    ) -> None:
        """The request is there already; drafts must not run over its capacity. Sessions cut prompts into chunks."""
        cache: RequestCache = model_kwargs["cache"]
        generation_config.prefill_chunk_size = None
        most = self.session.limits.max_dec + 1 + cache.padding
        generation_config._is_cut = generation_config.max_length > most
        generation_config._request = cache
        generation_config.max_length = min(generation_config.max_length, most)

    def _prefill(
        self, input_ids: Tensor, generation_config: GenerationConfig, model_kwargs: dict[str, Any], **options: Any
    ) -> Any:
        """As transformers does; a whole text must go on from what its cache holds.

        Text that comes without a mask is a whole one: transformers says so to itself for decoder-only models alone.
        """
        mask = model_kwargs.get(self._mask_name())
        if mask is None and not hasattr(generation_config, "_mask_length"):
            generation_config._mask_length = input_ids.shape[1]
        if input_ids.shape[1] == (generation_config._mask_length if mask is None else mask.shape[1]):
            model_kwargs["cache"].check_goes_on(real_tokens(input_ids, mask))
        return super()._prefill(input_ids, generation_config, model_kwargs, **options)

    def _get_logits_processor(self, *args: Any, **kwargs: Any) -> LogitsProcessorList:
        return quick(super()._get_logits_processor(*args, **kwargs))

    def _get_candidate_generator(self, generation_config: GenerationConfig, *args: Any, **kwargs: Any) -> DraftsThatFit:
        found = super()._get_candidate_generator(generation_config, *args, **kwargs)
        return DraftsThatFit(found, self.session.limits.max_dec + generation_config._request.padding)

    def _get_stopping_criteria(self, generation_config: GenerationConfig, *args: Any, **kwargs: Any) -> RowEnds:
        criteria = super()._get_stopping_criteria(generation_config, *args, **kwargs)
        return RowEnds(criteria, generation_config._request, generation_config._is_cut)


def _settings(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments of `generate` that can be settings."""
    return {name: value for name, value in arguments.items() if name not in LOOP}
