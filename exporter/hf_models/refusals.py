"""What `generate` is asked for and a program cannot do: refused in one line, never ignored.

Every field of GenerationConfig is in one of the lists below; a test holds them to the installed transformers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor
from transformers import GenerationConfig

from exporter.hf_models.request_cache import RequestCache, SharedSession
from exporter.spec.faults import SpecError, raise_if_any

SERVED = (
    *("max_length", "max_new_tokens", "min_length", "min_new_tokens", "max_time", "stop_strings"),
    *("do_sample", "temperature", "top_k", "top_p", "min_p", "top_h", "typical_p", "epsilon_cutoff", "eta_cutoff"),
    *("repetition_penalty", "encoder_repetition_penalty", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size"),
    *("bad_words_ids", "sequence_bias", "suppress_tokens", "begin_suppress_tokens", "watermarking_config"),
    *("forced_bos_token_id", "forced_eos_token_id", "exponential_decay_length_penalty", "renormalize_logits"),
    *("remove_invalid_values", "token_healing", "num_return_sequences"),
    *("output_scores", "output_logits", "return_dict_in_generate"),
    *("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"),
    *("prompt_lookup_num_tokens", "max_matching_ngram_size"),
)
"""Done by transformers' own loop, over the program's logits."""
WITHOUT_EFFECT = (
    *("early_stopping", "length_penalty", "diversity_penalty", "num_beam_groups", "low_memory"),  # of beams
    *("num_assistant_tokens", "num_assistant_tokens_schedule", "assistant_confidence_threshold", "is_assistant"),
    *("assistant_lookbehind", "target_lookbehind"),
    *("disable_compile", "max_cache_len", "prefill_chunk_size", "transformers_version"),
)
"""Nothing here reads them, and in transformers they change no token of what is served."""
_BUNDLE_DRAFTS = "prompt_lookup_num_tokens drafts here, and `run-model generate --speculate` with a model"
REFUSED: dict[str, tuple[tuple[object, ...], str]] = {
    "num_beams": ((None, 1), "caches stay with their rows; use num_beams=1"),
    "use_cache": ((None, True), "a program always uses its caches; leave it out"),
    "cache_implementation": ((None,), "the program has its caches; leave it out"),
    "cache_config": ((None,), "the program has its caches; leave it out"),
    "compile_config": ((None,), "the program is compiled; leave it out"),
    "guidance_scale": ((None, 1, 1.0), "a second prompt per row is not run; leave it out"),
    "output_attentions": ((None, False), "programs return logits only; leave it out"),
    "output_hidden_states": ((None, False), "programs return logits only; leave it out"),
    "use_mtp": ((None, False), _BUNDLE_DRAFTS),
    "assistant_early_exit": ((None,), _BUNDLE_DRAFTS),
    "assistant_ensemble_weight": ((None,), _BUNDLE_DRAFTS),
    "speculation_type": ((None,), _BUNDLE_DRAFTS),
    "continuous_batching_config": ((None,), "rows of a request begin together; leave it out"),
    "penalty_alpha": ((None, 0, 0.0), "transformers keeps it as code on the Hub; leave it out"),
    "dola_layers": ((None,), "transformers keeps it as code on the Hub; leave it out"),
    "constraints": ((None,), "transformers keeps it as code on the Hub; leave it out"),
    "force_words_ids": ((None,), "transformers keeps it as code on the Hub; leave it out"),
}
"""What is allowed, and what to do instead."""
ARGUMENTS: dict[str, str] = {
    "assistant_model": _BUNDLE_DRAFTS,
    "assistant_tokenizer": _BUNDLE_DRAFTS,
    "negative_prompt_ids": "a second prompt per row is not run; leave it out",
    "negative_prompt_attention_mask": "a second prompt per row is not run; leave it out",
    "custom_generate": "the loop is transformers' own; leave it out",
    "encoder_outputs": "programs encode as a request begins; give the encoder's input",
    "inputs_embeds": "programs take token ids; give input_ids",
    "decoder_inputs_embeds": "programs take token ids; give decoder_input_ids",
    "position_ids": "positions follow from attention_mask; leave it out",
    "decoder_position_ids": "positions follow from decoder_attention_mask; leave it out",
    "labels": "programs do not train; leave it out",
    "head_mask": "programs have all their heads; leave it out",
}
"""Arguments of `generate` and of the models' forward."""


class GenerateError(SpecError):
    """Arguments of `generate` that a bundle cannot serve; one line that names all of them."""


def check_generate(config: GenerationConfig, arguments: Mapping[str, Any], shared: SharedSession) -> None:
    """Raise GenerateError that names every setting and argument which is not served, and what is."""
    faults = [*_setting_faults(config), *_argument_faults(arguments, shared)]
    faults += _draft_faults(config.prompt_lookup_num_tokens, shared.session.limits.max_draft, arguments.get("cache"))
    raise_if_any(GenerateError, "generate", faults)


def check_forward(
    tokens: Mapping[str, Tensor | None],
    cache: object,
    logits_to_keep: object,
    others: Mapping[str, Any],
    shared: SharedSession,
) -> Tensor:
    """The tokens, int64 [B, T]. Raises GenerateError unless all are what programs take, and `others` says nothing."""
    ((name, tokens_BT),) = tokens.items()
    faults = [f"{other}: {ARGUMENTS.get(other, 'programs do not take it; leave it out')}" for other in _asked(others)]
    if not isinstance(tokens_BT, Tensor) or tokens_BT.dim() != 2:
        faults.append(f"{name} must be token ids of shape [rows, tokens]; give them")
    faults += _cache_faults(cache, shared)
    if not isinstance(logits_to_keep, int) or logits_to_keep < 0:
        faults.append(f"logits_to_keep={logits_to_keep} must be a number of last tokens, or 0 for all")
    raise_if_any(GenerateError, "forward", faults)
    assert isinstance(tokens_BT, Tensor)
    return tokens_BT


def _asked(others: Mapping[str, Any]) -> Iterator[str]:
    """Arguments that ask for something: a dictionary is always returned, and transformers' loop hands the tokenizer of
    its stop strings on to every model."""
    silent = ("return_dict", "tokenizer")
    return (name for name, value in others.items() if not (value is None or value is False or name in silent))


def _setting_faults(config: GenerationConfig) -> Iterator[str]:
    for name, (allowed, advice) in REFUSED.items():
        value = getattr(config, name, None)
        if not any(value is one or (value == one and one is not None) for one in allowed):
            yield f"{name}={value}: {advice}"


def _argument_faults(arguments: Mapping[str, Any], shared: SharedSession) -> Iterator[str]:
    for name, advice in ARGUMENTS.items():
        if arguments.get(name) is not None:
            yield f"{name}: {advice}"
    cache = arguments.get("cache", arguments.get("past_key_values"))
    yield from _cache_faults(cache, shared)
    if isinstance(cache, RequestCache) and cache.rows > 1:
        yield f"cache holds {cache.rows} rows: a conversation goes on with one; leave it out and give the whole text"


def _cache_faults(cache: object, shared: SharedSession) -> Iterator[str]:
    if cache is not None and not (isinstance(cache, RequestCache) and cache.shared is shared):
        yield f"cache is a {type(cache).__name__}: give one that this model's generate returned, or leave it out"


def _draft_faults(drafts: int | None, most: int, cache: object) -> Iterator[str]:
    if drafts is not None and isinstance(cache, RequestCache) and cache.rows:
        yield f"prompt_lookup_num_tokens={drafts}: drafts come with the whole text; leave cache out"
    if drafts is not None and drafts > most:
        fault = f"prompt_lookup_num_tokens={drafts}: the bundle verifies at most {most} drafts"
        yield f"{fault}; {'use fewer, or ' if most else ''}export with a larger --max-draft"
