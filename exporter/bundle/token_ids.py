"""Token ids of a checkpoint's generation settings, held against its vocabulary.

An id that no logit answers to is found when the model is planned, not when the manifest is written.
"""

from __future__ import annotations

from collections.abc import Iterator

from transformers import GenerationConfig

from exporter.spec.model_spec import ModelSpec
from runtime_shims.contract.integers import as_integer, pictured

NO_PADDING = -1
"""What older Llama checkpoints write into `pad_token_id` for "none"."""

_FOR_ALL = (
    "eos_token_id",
    "pad_token_id",
    "suppress_tokens",
    "begin_suppress_tokens",
    "forced_eos_token_id",
)


def token_id_faults(config: GenerationConfig, spec: ModelSpec) -> list[str]:
    """Every setting that is used and names what is no token: its value and what is allowed."""
    allowed = f"use ids 0..{spec.vocab_size - 1}, in the checkpoint's generation_config.json or config.json"
    faults = []
    for name, value in _used(config, spec):
        wrong = dict.fromkeys(pictured(item) for item in _items(value) if not _is_token(item, spec.vocab_size))
        faults += [f"{name} {item} is no token of the vocabulary; {allowed}" for item in wrong]
    return faults


def pad_ids(config: GenerationConfig) -> object:
    """`pad_token_id`, None where an older checkpoint says "none" with a number."""
    return None if config.pad_token_id == NO_PADDING else config.pad_token_id


def _used(config: GenerationConfig, spec: ModelSpec) -> Iterator[tuple[str, object]]:
    """The settings that become token rules of a model of this kind."""
    for name in _FOR_ALL:
        yield name, pad_ids(config) if name == "pad_token_id" else getattr(config, name, None)
    forced_first = config.forced_bos_token_id
    yield "forced_bos_token_id", None if forced_first is None else [forced_first]
    for word in _items(config.bad_words_ids):
        yield "bad_words_ids", word if isinstance(word, list | tuple) else [[word]]
    if spec.kind != "decoder_only":
        start = config.decoder_start_token_id
        yield ("decoder_start_token_id", start) if start is not None else ("bos_token_id", config.bos_token_id)
    if spec.kind == "speech_seq2seq":
        yield "no_timestamps_token_id", getattr(config, "no_timestamps_token_id", None)
        for pair in _items(getattr(config, "forced_decoder_ids", None)):
            if isinstance(pair, list | tuple) and len(pair) == 2 and as_integer(pair[0]) is not None:
                yield "forced_decoder_ids", pair[1]
            else:
                yield "forced_decoder_ids", [[pair]]


def _items(value: object) -> list[object]:
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def _is_token(value: object, vocab_size: int) -> bool:
    number = as_integer(value)
    return number is not None and 0 <= number < vocab_size
