"""Access to ``examples/real_weights.py`` from tests, and stock loading of what it finds."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GgufConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

EXAMPLES = Path(__file__).parents[2] / "examples"


def real_weights() -> ModuleType:
    """The module ``examples/real_weights.py``; its functions raise in one line when a package is missing."""
    if str(EXAMPLES) not in sys.path:
        sys.path.insert(0, str(EXAMPLES))
    return import_module("real_weights")


def load_gguf(path: Path) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Model (fp32, eval, dense) and tokenizer of a GGUF file, by transformers alone."""
    model = AutoModelForCausalLM.from_pretrained(
        path.parent,
        gguf_file=path.name,
        dtype=torch.float32,
        quantization_config=GgufConfig(dequantize=True),
    )
    return model.eval().requires_grad_(False), AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)


def load_dense(path: Path) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The same of a checkpoint directory that `save_dense` wrote."""
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
    return model.eval().requires_grad_(False), AutoTokenizer.from_pretrained(path)


def save_dense(gguf: Path, target: Path) -> None:
    """A GGUF file's model and tokenizer as a checkpoint directory, which loads in a tenth of the time."""
    model, tokenizer = load_gguf(gguf)
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)
