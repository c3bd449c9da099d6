"""`AssistantSpec`: a model without keys and values of its own, which drafts tokens from those of the model it assists.

Gemma 4's assistants for multi-token prediction: from the last token and the hidden state behind it they give the next
token and the next hidden state, and attend to the model's last cache of each type of layer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from exporter.spec.faults import PlanError, raise_if_any
from exporter.spec.model_spec import LayerSpec, ModelSpec
from exporter.spec.parameters import auto_class
from exporter.spec.weight_format import WeightSizes, weight_sizes

if TYPE_CHECKING:
    from transformers import PretrainedConfig

ASSISTANTS = {"gemma4_assistant": "gemma4_text", "gemma4_unified_assistant": "gemma4_unified_text"}
"""Model types of assistants, and the type of model that each assists."""
KINDS = {"sliding_attention": "sliding", "full_attention": "full"}


@dataclass(frozen=True)
class AssistantSpec:
    """The facts of an assistant beside the model that it assists.

    Attributes:
        donors: type of attention -> the model's layer whose keys and values such layers read.
        hidden_size: width of the model's hidden states, which it takes and gives.
    """

    model_type: str
    donors: dict[str, int]
    hidden_size: int
    weights: WeightSizes

    @classmethod
    def from_config(cls, config: PretrainedConfig, target: ModelSpec) -> AssistantSpec:
        """Read the facts of `config`, an assistant of `target`.

        Raises:
            PlanError: names everything in which it does not fit the model.
        """
        donors = _donors(target)
        raise_if_any(PlanError, f"an assistant of type {config.model_type}", _faults(config, target, donors))
        return cls(config.model_type, donors, target.hidden_size, _weights(config))

    def looks_further(self, layer: LayerSpec) -> int:
        """Positions of a layer's cache that the assistant sees and no query of the layer at the next position does.

        A sliding layer of an assistant sees, beside the last position that was written, as many before it as the window
        has: two more than a query at the next position, which sees itself.
        """
        return 2 if layer.kind == "sliding" and layer.index in self.donors.values() else 0


def is_assistant(config: PretrainedConfig) -> bool:
    """Whether this config is that of a model that can only draft for another."""
    return config.model_type in ASSISTANTS


def _donors(target: ModelSpec) -> dict[str, int]:
    """The last layer of each type that has a cache."""
    names = {kind: name for name, kind in KINDS.items()}
    return {names[layer.kind]: layer.index for layer in target.cache_owners}


def _faults(config: PretrainedConfig, target: ModelSpec, donors: dict[str, int]) -> list[str]:
    text: Any = config.get_text_config()
    wanted = ASSISTANTS[config.model_type]
    faults = [] if target.model_type == wanted else [f"it assists {wanted}, and the model is a {target.model_type}"]
    facts = {
        "backbone_hidden_size": (config.backbone_hidden_size, target.hidden_size, "hidden size"),
        "vocab_size": (text.vocab_size, target.vocab_size, "vocabulary"),
    }
    faults += [
        f"its {name} is {found}, the {what} of the model is {expected}"
        for name, (found, expected, what) in facts.items()
        if found != expected
    ]
    for kind in dict.fromkeys(text.layer_types):
        if kind not in donors:
            faults.append(f"its layers of {kind} find no cache of that type in the model")
            continue
        donor = target.layers[donors[kind]]
        if donor.window is not None and text.sliding_window != donor.window:
            faults.append(f"its window is {text.sliding_window}, the model's {donor.window}")
        head_size = text.per_layer_config[text.layer_types.index(kind)].head_dim
        if head_size != donor.key_dim:
            faults.append(f"its {kind} has heads of {head_size}, the model's of {donor.key_dim}")
        if text.num_attention_heads % donor.kv_heads:
            heads = f"{text.num_attention_heads} heads do not share the model's {donor.kv_heads} key/value heads"
            faults.append(f"its {heads}")
    return faults


def _weights(config: PretrainedConfig) -> WeightSizes:
    import torch

    with torch.device("meta"):
        model = auto_class("decoder_only").from_config(config)
    return weight_sizes(model, head_is_tied=True)
