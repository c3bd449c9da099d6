"""Weights: seeded ones, and the proof that a checkpoint brought all of them and nothing else."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

from exporter.spec.faults import ModelSourceError, raise_if_any
from exporter.spec.model_spec import ModelSpec
from exporter.spec.parameters import auto_class
from exporter.spec.text_part import drop_image_tower

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

# Buffers that older transformers versions saved and that are computed today.
_COMPUTED = re.compile(
    r"(rotary_emb\.inv_freq|attn(?:\.attention)?\.(?:masked_)?bias|position_ids|embed_positions\.weights|\.version)$"
)
_NAMES_SHOWN = 8


def random_model(config: PretrainedConfig, spec: ModelSpec, seed: int) -> PreTrainedModel:
    """A float32 model whose weights depend on `config` and `seed` only.

    The caller's random state is left as it was.
    """
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model: PreTrainedModel = auto_class(spec.kind).from_config(config, dtype=torch.float32)
        drop_image_tower(model)
        if not spec.tied_embeddings:
            untie_head(model)
    finished: PreTrainedModel = model.eval().requires_grad_(False)
    return finished


def random_assistant(config: PretrainedConfig, seed: int) -> PreTrainedModel:
    """The same of an assistant; its clusters hold the words in their order."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model: PreTrainedModel = auto_class("decoder_only").from_config(config, dtype=torch.float32)
    if model.masked_embedding is not None:
        model.masked_embedding.token_ordering.copy_(torch.arange(model.vocab_size))
    finished: PreTrainedModel = model.eval().requires_grad_(False)
    return finished


def untie_head(model: PreTrainedModel) -> None:
    """Give the output head weights of its own where transformers ties it against the checkpoint's config."""
    import torch

    head = model.get_output_embeddings()
    if head.weight is model.get_input_embeddings().weight:
        scale = head.weight.shape[1] ** -0.5
        head.weight = torch.nn.Parameter(torch.randn_like(head.weight) * scale)


def require_complete(name: str, model: PreTrainedModel, report: dict[str, Any]) -> None:
    """Refuse a checkpoint that does not match the model weight for weight.

    Args:
        report: transformers' loading report (`missing_keys`, `unexpected_keys`, `mismatched_keys`).

    Raises:
        ModelSourceError: names the weights that are missing, left over, or of another shape.
    """
    left_over = [key for key in report["unexpected_keys"] if not _COMPUTED.search(key)]
    reshaped = [
        f"{key} (file {list(found)}, model {list(needed)})"
        for key, found, needed in report["mismatched_keys"]
    ]
    faults = [
        f"{len(names)} weights {what}: {_shown(names)}"
        for what, names in (
            ("are missing", _missing(model, report["missing_keys"])),
            ("are not part of the model", left_over),
            ("have another shape", reshaped),
        )
        if names
    ]
    raise_if_any(ModelSourceError, name, faults + [str(message) for message in report["error_msgs"]])


def _missing(model: PreTrainedModel, keys: Iterable[str]) -> list[str]:
    """`keys` without the position tables that are a formula, not learned."""
    return [
        key for key in keys if "Sinusoidal" not in type(model.get_submodule(key.rpartition(".")[0])).__name__
    ]


def _shown(names: Collection[str]) -> str:
    first = sorted(names)[:_NAMES_SHOWN]
    rest = len(names) - len(first)
    return ", ".join(first) + (f" and {rest} more" if rest else "")
