"""A tokenizer for models of a tiny vocabulary: one token per letter."""

from __future__ import annotations

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

LETTERS = "ĠabcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.,:!?-|;()"


def letter_tokenizer(vocab_size: int) -> PreTrainedTokenizerFast:
    """`<s>` is 0, `</s>` is 1, letters follow up to `vocab_size`; other characters are dropped."""
    letters = LETTERS[: vocab_size - 2]
    vocab = {"<s>": 0, "</s>": 1} | {letter: index + 2 for index, letter in enumerate(letters)}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")
