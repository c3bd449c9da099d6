"""The generation settings of a checkpoint as the rules that the runtimes honour.

Settings that would change the tokens and that no runtime honours are refused by name: an export that silently
decodes otherwise than the checkpoint asks for would be a lie.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from transformers import GenerationConfig

from exporter.bundle.token_ids import pad_ids, token_id_faults
from exporter.bundle.whisper_prompt import DEFAULT_LANGUAGE, leaves_language_open, whisper_prompt
from exporter.spec.faults import SpecError, raise_if_any
from exporter.spec.model_spec import ModelSpec
from runtime_shims.contract.manifest import ForcedToken, GenerationSettings, TokenRules

_LIBRARY_MAX_LENGTH = 20  # transformers' default when a checkpoint says nothing
_NEUTRAL: dict[str, tuple[object, ...]] = {
    "do_sample": (None, False),
    "num_beams": (None, 1),
    "num_return_sequences": (None, 1),
    "repetition_penalty": (None, 1.0),
    "encoder_repetition_penalty": (None, 1.0),
    "no_repeat_ngram_size": (None, 0),
    "encoder_no_repeat_ngram_size": (None, 0),
    "min_length": (None, 0),
    "min_new_tokens": (None, 0),
    "guidance_scale": (None, 1.0),
    "penalty_alpha": (None,),
    "dola_layers": (None,),
    "token_healing": (None, False),
    "constraints": (None,),
    "force_words_ids": (None,),
    "return_timestamps": (None, False),
    "sequence_bias": (None,),
    "stop_strings": (None,),
    "exponential_decay_length_penalty": (None,),
    "watermarking_config": (None,),
}


class GenerationSettingsError(SpecError):
    """Settings that no runtime of this version honours, or that name tokens which do not exist."""


@dataclass(frozen=True)
class Rules:
    """What the manifest says about tokens; settings dropped on request, and settings assumed where none are given."""

    tokens: TokenRules
    generation: GenerationSettings
    dropped: tuple[str, ...]
    assumed: tuple[str, ...] = ()


def rules_from(config: GenerationConfig, spec: ModelSpec, max_dec: int, *, greedy: bool = False) -> Rules:
    """Translate a generation config.

    Args:
        max_dec: decoder capacity; forced tokens past it can never be reached.
        greedy: decode greedily whatever the checkpoint asks for; the settings dropped are listed.

    Raises:
        GenerationSettingsError: names every setting that is not honoured, or every one that is no token.
    """
    raise_if_any(GenerationSettingsError, "generation settings", token_id_faults(config, spec))
    asked = unhonoured(config)
    if not greedy:
        advice = [*asked, "give --greedy to decode greedily without them"] if asked else []
        raise_if_any(GenerationSettingsError, "the checkpoint's generation settings are not honoured", advice)
    start = start_tokens(config, spec)
    tokens = TokenRules(
        vocab_size=spec.vocab_size,
        eos=unique(as_ids(config.eos_token_id)),
        pad=first(as_ids(pad_ids(config))),
        start=start,
        forced=tuple(token for token in forced_tokens(config, start) if token.position < max_dec),
        suppress=unique([*as_ids(config.suppress_tokens), *single_bad_words(config)]),
        begin_suppress=unique(as_ids(config.begin_suppress_tokens)),
    )
    assumed = (f"language={DEFAULT_LANGUAGE}",) if leaves_language_open(config) else ()
    return Rules(tokens, GenerationSettings(max_new_tokens(config, len(start))), tuple(asked), assumed)


def unhonoured(config: GenerationConfig) -> list[str]:
    """`name=value` of every setting that changes tokens and is not honoured."""
    asked = [f"{name}={getattr(config, name)}" for name in unhonoured_names(config)]
    if any(len(word) != 1 for word in config.bad_words_ids or []):
        asked.append("bad_words_ids of several tokens")
    return asked


def unhonoured_names(config: GenerationConfig) -> list[str]:
    """The names of such settings."""
    return [name for name, neutral in _NEUTRAL.items() if getattr(config, name, None) not in neutral]


def start_tokens(config: GenerationConfig, spec: ModelSpec) -> tuple[int, ...]:
    """The decoder prompt. Whisper: start of transcript, (language, task,) no timestamps."""
    if spec.kind == "decoder_only":
        return ()
    start = [first(as_ids(config.decoder_start_token_id))]
    if start == [None]:
        start = [first(as_ids(config.bos_token_id))]
    if start == [None]:
        raise GenerationSettingsError("generation settings", ["decoder_start_token_id is missing"])
    if spec.kind == "speech_seq2seq":
        start += whisper_prompt(config, spec.vocab_size)
    return tuple(token for token in start if token is not None)


def forced_tokens(config: GenerationConfig, start: tuple[int, ...]) -> list[ForcedToken]:
    """BART's first target token, and end-of-sequence at the length limit the checkpoint names."""
    forced = []
    if config.forced_bos_token_id is not None:
        forced.append(ForcedToken(position=max(len(start), 1), token=int(config.forced_bos_token_id)))
    eos = first(as_ids(config.forced_eos_token_id))
    if eos is not None and has_length_limit(config):
        forced.append(ForcedToken(position=config.max_length - 1, token=eos))
    return forced


def max_new_tokens(config: GenerationConfig, start_length: int) -> int | None:
    """The checkpoint's own budget, if it names one."""
    if config.max_new_tokens is not None:
        return int(config.max_new_tokens)
    return max(1, config.max_length - start_length) if has_length_limit(config) and start_length else None


def has_length_limit(config: GenerationConfig) -> bool:
    return config.max_length is not None and config.max_length != _LIBRARY_MAX_LENGTH


def single_bad_words(config: GenerationConfig) -> list[int]:
    """Forbidden words of one token are suppressed tokens (Marian forbids its pad token so).

    An end-of-sequence token is never forbidden this way: transformers ignores the word.
    """
    eos = as_ids(config.eos_token_id)
    return [word[0] for word in config.bad_words_ids or [] if len(word) == 1 and word[0] not in eos]


def as_ids(value: object) -> list[int]:
    if value is None:
        return []
    return [int(item) for item in value] if isinstance(value, list | tuple) else [int(value)]  # type: ignore[call-overload]


def first(ids: list[int]) -> int | None:
    return ids[0] if ids else None


def unique(ids: Iterable[int]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(ids))
