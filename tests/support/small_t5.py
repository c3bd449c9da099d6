"""The committed T5 that reverses strings of distinct letters and digits (``examples/train_small_t5.py``)."""

from __future__ import annotations

import random
from pathlib import Path

import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

SMALL_T5 = Path(__file__).parents[1] / "data" / "small_t5"
SYMBOLS = "abcdefghijklmnopqrstuvwxyz0123456789"
LONGEST = 24


def load() -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Model (fp32, eval) and tokenizer, as any Hugging Face checkpoint loads."""
    model = AutoModelForSeq2SeqLM.from_pretrained(SMALL_T5, dtype=torch.float32).eval().requires_grad_(False)
    return model, AutoTokenizer.from_pretrained(SMALL_T5)


def strings(count: int, seed: int = 100) -> list[str]:
    """Strings of 1 to 24 distinct symbols; the right answer to ``text`` is ``text[::-1]``."""
    generator = random.Random(seed)
    return ["".join(generator.sample(SYMBOLS, generator.randint(1, LONGEST))) for _ in range(count)]
