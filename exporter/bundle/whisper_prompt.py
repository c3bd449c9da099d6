"""Whisper's decoder prompt: the tokens that say which language, which task, and no timestamps.

The order of authority is transformers': `language` and `task` of the generation settings, then the older
`forced_decoder_ids`. Where a multilingual checkpoint leaves the language open, stock transformers detects it
from the sound; no runtime of this version does, so English is transcribed and the export says so.
"""

from __future__ import annotations

from transformers import GenerationConfig
from transformers.models.whisper.tokenization_whisper import TO_LANGUAGE_CODE

from exporter.spec.faults import SpecError
from runtime_shims.contract.integers import as_integer, pictured

DEFAULT_LANGUAGE, DEFAULT_TASK = "en", "transcribe"


class WhisperPromptError(SpecError):
    """A language or task that the checkpoint names and has no token for."""


def whisper_prompt(config: GenerationConfig, vocab_size: int) -> list[int]:
    """The tokens after start-of-transcript, all below `vocab_size`. English-only: just the one for no timestamps.

    Raises:
        WhisperPromptError: names the setting and what the checkpoint has.
    """
    prompt: list[int | None] = list(_from_forced_ids(config))
    if getattr(config, "is_multilingual", False):
        language = getattr(config, "language", None)
        if language is not None or not prompt or prompt[0] is None:
            prompt[:1] = [_language_token(config, language or DEFAULT_LANGUAGE, vocab_size)]
        tasks = _table(config, "task_to_id")
        task = getattr(config, "task", None)
        if task is not None or not set(prompt) & set(tasks.values()):
            kept = [token for token in prompt if token not in tasks.values()]
            prompt = [*kept[:1], _entry(tasks, "task", task or DEFAULT_TASK, vocab_size), *kept[1:]]
    no_timestamps = getattr(config, "no_timestamps_token_id", None)
    if prompt[-1:] != [no_timestamps]:
        prompt.append(no_timestamps)
    return [token for token in prompt if token is not None]


def leaves_language_open(config: GenerationConfig) -> bool:
    """Whether a multilingual checkpoint names no language, so that the default one is assumed."""
    named = getattr(config, "language", None) is not None or next(iter(_from_forced_ids(config)), None) is not None
    return bool(getattr(config, "is_multilingual", False)) and not named


def _from_forced_ids(config: GenerationConfig) -> list[int | None]:
    """The run of `forced_decoder_ids` from position 1 on; `language` and `task` overrule all of it."""
    if getattr(config, "language", None) is not None or getattr(config, "task", None) is not None:
        return []
    forced = dict(getattr(config, "forced_decoder_ids", None) or [])
    run: list[int | None] = []
    while len(run) + 1 in forced:
        run.append(forced[len(run) + 1])
    return run


def _language_token(config: GenerationConfig, language: str, vocab_size: int) -> int:
    """The token of a language given as `de`, `german` or `<|de|>`."""
    name = language.lower()
    code = name if name.startswith("<|") else f"<|{TO_LANGUAGE_CODE.get(name, name)}|>"
    return _entry(_table(config, "lang_to_id"), "language", code, vocab_size)


def _table(config: GenerationConfig, name: str) -> dict[str, int]:
    table = getattr(config, name, None)
    if not table:
        fault = f"{name} is missing, though is_multilingual is true; update generation_config.json"
        raise WhisperPromptError("generation settings", [fault])
    return dict(table)


def _entry(table: dict[str, int], setting: str, key: str, vocab_size: int) -> int:
    if key not in table:
        fault = f"{setting} {key} has no token in this checkpoint; it has {', '.join(sorted(table))}"
        raise WhisperPromptError("generation settings", [fault])
    token = as_integer(table[key])
    if token is None or not 0 <= token < vocab_size:
        fault = f"the token {pictured(table[key])} of {setting} {key} is not in the vocabulary"
        advice = f"use ids 0..{vocab_size - 1}, in the checkpoint's generation_config.json"
        raise WhisperPromptError("generation settings", [f"{fault}; {advice}"])
    return token
