"""A checkpoint's generation settings become the manifest's token rules, or are refused by name."""

from __future__ import annotations

from typing import Any

import pytest
from transformers import GenerationConfig

from exporter.bundle.token_rules import GenerationSettingsError, Rules, rules_from, unhonoured
from exporter.spec.model_spec import ModelSpec
from runtime_shims.contract.manifest import ForcedToken
from tests.support.tiny_models import CASES, build

REFUSED: dict[str, Any] = {
    "do_sample": True,
    "num_beams": 4,
    "num_return_sequences": 3,
    "repetition_penalty": 1.2,
    "encoder_repetition_penalty": 1.5,
    "no_repeat_ngram_size": 3,
    "encoder_no_repeat_ngram_size": 2,
    "min_length": 56,
    "min_new_tokens": 5,
    "guidance_scale": 2.0,
    "penalty_alpha": 0.6,
    "dola_layers": "low",
    "token_healing": True,
    "constraints": [[3]],
    "force_words_ids": [[3]],
    "sequence_bias": [[[3], -2.0]],
    "stop_strings": ["\n"],
    "exponential_decay_length_penalty": [5, 1.1],
    "watermarking_config": {"bias": 2.0},
}
"""Settings that change greedy tokens and that no runtime honours."""

TRANSLATED = {
    "bad_words_ids",
    "begin_suppress_tokens",
    "bos_token_id",
    "decoder_start_token_id",
    "eos_token_id",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "max_length",
    "max_new_tokens",
    "pad_token_id",
    "suppress_tokens",
}
ONLY_WHEN_SAMPLING = {
    "temperature", "top_k", "top_p", "min_p", "top_h", "typical_p", "epsilon_cutoff", "eta_cutoff",
}  # fmt: skip
ONLY_WITH_BEAMS = {"diversity_penalty", "early_stopping", "length_penalty", "num_beam_groups"}
HOW_NOT_WHAT = {
    "_from_model_config", "assistant_confidence_threshold", "assistant_early_exit",
    "assistant_ensemble_weight", "assistant_lookbehind", "cache_config", "cache_implementation",
    "compile_config", "continuous_batching_config", "disable_compile", "is_assistant", "low_memory",
    "max_cache_len", "max_matching_ngram_size", "max_time", "num_assistant_tokens",
    "num_assistant_tokens_schedule", "output_attentions", "output_hidden_states", "output_logits",
    "output_scores", "prefill_chunk_size", "prompt_lookup_num_tokens", "remove_invalid_values",
    "renormalize_logits", "return_dict_in_generate", "speculation_type", "target_lookbehind",
    "transformers_version", "use_cache", "use_mtp",
}  # fmt: skip
"""Settings that choose a way to the same greedy tokens, or what comes back beside them."""

MULTILINGUAL = {
    "decoder_start_token_id": 40,
    "is_multilingual": True,
    "lang_to_id": {"<|en|>": 41, "<|de|>": 42},
    "task_to_id": {"transcribe": 50, "translate": 51},
    "no_timestamps_token_id": 52,
}


def rules_of(name: str, max_dec: int = 128, *, greedy: bool = False, **settings: Any) -> Rules:
    """Rules of tiny model `name` with a generation config of exactly these settings."""
    spec = ModelSpec.from_config(CASES[name].config())
    return rules_from(GenerationConfig(**settings), spec, max_dec, greedy=greedy)


def test_bart_forces_its_first_token_and_the_end_at_its_length_limit() -> None:
    rules = rules_of("bart", decoder_start_token_id=2, forced_bos_token_id=0, forced_eos_token_id=2, max_length=12)
    assert rules.tokens.start == (2,)
    assert rules.tokens.forced == (ForcedToken(1, 0), ForcedToken(11, 2))
    assert rules.generation.max_new_tokens == 11


def test_an_end_that_the_capacity_never_reaches_is_left_out() -> None:
    settings = {"decoder_start_token_id": 2, "forced_eos_token_id": 2, "max_length": 12}
    assert rules_of("bart", max_dec=12, **settings).tokens.forced == (ForcedToken(11, 2),)
    assert rules_of("bart", max_dec=11, **settings).tokens.forced == ()


def test_an_end_is_forced_only_where_the_checkpoint_names_a_length_limit() -> None:
    assert rules_of("bart", decoder_start_token_id=2, forced_eos_token_id=2).tokens.forced == ()


def test_marian_never_writes_its_padding_token() -> None:
    rules = rules_of("marian", decoder_start_token_id=63, eos_token_id=0, bad_words_ids=[[63], [7], [63]])
    assert rules.tokens.suppress == (63, 7)


def test_a_forbidden_end_of_sequence_is_ignored_as_transformers_does() -> None:
    rules = rules_of("marian", decoder_start_token_id=63, eos_token_id=[0, 5], bad_words_ids=[[0], [5], [6]])
    assert rules.tokens.suppress == (6,)


def test_a_forbidden_phrase_is_refused() -> None:
    with pytest.raises(GenerationSettingsError, match="bad_words_ids of several tokens"):
        rules_of("marian", decoder_start_token_id=63, bad_words_ids=[[4, 5]])


def test_whisper_keeps_its_suppress_lists_and_asks_for_no_timestamps() -> None:
    spec = ModelSpec.from_config(CASES["whisper"].config())
    rules = rules_from(build("whisper").generation_config, spec, 128)
    assert rules.tokens.start == (61, 62)
    assert rules.tokens.suppress == (1, 2, 7, 61, 63)
    assert rules.tokens.begin_suppress == (5, 60)
    assert rules.generation.max_new_tokens == 126


@pytest.mark.parametrize(
    ("settings", "start"),
    [
        ({}, (40, 41, 50, 52)),
        ({"language": "de"}, (40, 42, 50, 52)),
        ({"language": "German"}, (40, 42, 50, 52)),
        ({"language": "<|de|>", "task": "translate"}, (40, 42, 51, 52)),
        ({"task": "translate"}, (40, 41, 51, 52)),
        ({"forced_decoder_ids": [[1, None], [2, 51]]}, (40, 41, 51, 52)),
        ({"forced_decoder_ids": [[1, 42], [2, 50]]}, (40, 42, 50, 52)),
        ({"forced_decoder_ids": [[1, 42], [2, 50], [3, 52]]}, (40, 42, 50, 52)),
        ({"forced_decoder_ids": [[1, 42], [2, 51]], "task": "transcribe"}, (40, 41, 50, 52)),
        ({"no_timestamps_token_id": None}, (40, 41, 50)),
    ],
)
def test_a_multilingual_whisper_names_language_and_task(settings: dict[str, Any], start: tuple[int, ...]) -> None:
    assert rules_of("whisper", **(MULTILINGUAL | settings)).tokens.start == start


@pytest.mark.parametrize(
    ("settings", "assumed"),
    [
        ({}, ("language=en",)),
        ({"task": "translate"}, ("language=en",)),
        ({"forced_decoder_ids": [[1, None], [2, 51]]}, ("language=en",)),
        ({"forced_decoder_ids": [[1, 42], [2, 50]]}, ()),
        ({"language": "de"}, ()),
    ],
)
def test_a_language_that_the_checkpoint_leaves_open_is_named_as_assumed(
    settings: dict[str, Any], assumed: tuple[str, ...]
) -> None:
    assert rules_of("whisper", **(MULTILINGUAL | settings)).assumed == assumed


def test_an_english_whisper_assumes_nothing() -> None:
    spec = ModelSpec.from_config(CASES["whisper"].config())
    assert rules_from(build("whisper").generation_config, spec, 128).assumed == ()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"language": "klingon"}, r"language <\|klingon\|> has no token in this checkpoint; it has <\|de\|>"),
        ({"task": "sing"}, "task sing has no token in this checkpoint; it has transcribe, translate"),
        ({"lang_to_id": None}, "lang_to_id is missing"),
        ({"task_to_id": None}, "task_to_id is missing"),
    ],
)
def test_a_language_or_task_without_a_token_is_one_line(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rules_of("whisper", **(MULTILINGUAL | settings))


@pytest.mark.parametrize("table", ["lang_to_id", "task_to_id"])
@pytest.mark.parametrize("token", [9999, -1, "x"])
def test_a_language_or_task_whose_token_is_not_in_the_vocabulary_is_one_line(table: str, token: object) -> None:
    key = "<|en|>" if table == "lang_to_id" else "transcribe"
    with pytest.raises(ValueError, match=f"{token!r} of (language|task) .* use ids 0..63"):
        rules_of("whisper", **(MULTILINGUAL | {table: MULTILINGUAL[table] | {key: token}}))


NO_TOKENS: list[tuple[str, str, Any, str]] = [
    ("llama", "eos_token_id", 9999, "9999"),
    ("llama", "eos_token_id", -1, "-1"),
    ("llama", "eos_token_id", "x", "'x'"),
    ("llama", "eos_token_id", [1, 64], "64"),
    ("llama", "eos_token_id", True, "True"),
    ("llama", "pad_token_id", 64, "64"),
    ("llama", "pad_token_id", -2, "-2"),
    ("llama", "suppress_tokens", [3, 99999], "99999"),
    ("llama", "begin_suppress_tokens", [1.5], "1.5"),
    ("llama", "bad_words_ids", [[64]], "64"),
    ("llama", "bad_words_ids", ["x"], "['x']"),
    ("llama", "bad_words_ids", [5], "[5]"),
    ("llama", "forced_bos_token_id", [5], "[5]"),
    ("bart", "forced_bos_token_id", 64, "64"),
    ("bart", "forced_eos_token_id", [-1], "-1"),
    ("bart", "decoder_start_token_id", 64, "64"),
    ("bart", "bos_token_id", 64, "64"),
    ("whisper", "no_timestamps_token_id", 64, "64"),
    ("whisper", "forced_decoder_ids", [[1, 64]], "64"),
    ("whisper", "forced_decoder_ids", [3], "[3]"),
    ("whisper", "forced_decoder_ids", [["x", 3]], "[['x', 3]]"),
]


@pytest.mark.parametrize(("model", "name", "value", "shown"), NO_TOKENS)
def test_a_setting_that_names_no_token_is_refused_with_the_ids_that_are_allowed(
    model: str, name: str, value: object, shown: str
) -> None:
    others = {"decoder_start_token_id": 2} if model != "llama" and name != "bos_token_id" else {}
    config = GenerationConfig(**others)
    setattr(config, name, value)
    spec = ModelSpec.from_config(CASES[model].config())
    with pytest.raises(GenerationSettingsError) as refusal:
        rules_from(config, spec, 128)
    (fault,) = refusal.value.faults
    assert fault.startswith(f"{name} {shown} is no token of the vocabulary; use ids 0..{spec.vocab_size - 1}, in")


def test_the_last_token_of_the_vocabulary_is_a_token() -> None:
    rules = rules_of("llama", eos_token_id=63, pad_token_id=63, suppress_tokens=[0, 63])
    assert (rules.tokens.eos, rules.tokens.pad, rules.tokens.suppress) == ((63,), 63, (0, 63))


def test_every_setting_that_names_no_token_is_listed_at_once() -> None:
    with pytest.raises(GenerationSettingsError) as refusal:
        rules_of("llama", eos_token_id=[64, 65], suppress_tokens=[-7])
    assert [fault.split(" is ")[0] for fault in refusal.value.faults] == [
        "eos_token_id 64", "eos_token_id 65", "suppress_tokens -7",
    ]  # fmt: skip


def test_padding_of_minus_one_is_no_padding_as_older_llamas_mean_it() -> None:
    assert rules_of("llama", eos_token_id=1, pad_token_id=-1).tokens.pad is None


def test_a_setting_that_the_model_does_not_use_may_name_anything() -> None:
    assert rules_of("llama", bos_token_id=9999, decoder_start_token_id=9999).tokens.start == ()


def test_timestamps_are_refused_by_name() -> None:
    with pytest.raises(GenerationSettingsError, match="return_timestamps=True"):
        rules_of("whisper", **MULTILINGUAL, return_timestamps=True)


@pytest.mark.parametrize(("name", "value"), REFUSED.items())
def test_a_setting_that_no_runtime_honours_is_refused_by_name(name: str, value: Any) -> None:
    config = GenerationConfig()
    setattr(config, name, value)
    spec = ModelSpec.from_config(CASES["llama"].config())
    with pytest.raises(GenerationSettingsError) as refusal:
        rules_from(config, spec, 128)
    assert f"{name}={value}" in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_all_refused_settings_are_listed_at_once_with_the_way_out() -> None:
    with pytest.raises(GenerationSettingsError) as refusal:
        rules_of("llama", do_sample=True, num_beams=4, repetition_penalty=1.1)
    assert refusal.value.faults == (
        "do_sample=True",
        "num_beams=4",
        "repetition_penalty=1.1",
        "give --greedy to decode greedily without them",
    )


def test_greedy_drops_what_is_not_honoured_and_says_what() -> None:
    rules = rules_of("bart", greedy=True, decoder_start_token_id=2, num_beams=4, forced_bos_token_id=0)
    assert rules.dropped == ("num_beams=4",)
    assert rules.tokens.forced == (ForcedToken(1, 0),)


def test_neutral_values_ask_for_nothing() -> None:
    neutral = GenerationConfig(
        do_sample=False, num_beams=1, repetition_penalty=1.0, no_repeat_ngram_size=0, min_length=0,
        temperature=0.7, top_k=50, length_penalty=2.0, early_stopping=True,
    )  # fmt: skip
    assert unhonoured(neutral) == []


def test_every_setting_that_transformers_knows_has_been_judged() -> None:
    """A setting that a new version of transformers adds must be put into one of these groups."""
    judged = TRANSLATED | set(REFUSED) | ONLY_WHEN_SAMPLING | ONLY_WITH_BEAMS | HOW_NOT_WHAT
    assert set(GenerationConfig().to_dict()) - judged == set()


def test_a_decoder_only_model_has_no_start_tokens_and_no_budget_of_its_own() -> None:
    rules = rules_of("llama", bos_token_id=2, eos_token_id=[1, 5, 1], pad_token_id=0, max_length=50)
    assert rules.tokens.start == ()
    assert rules.tokens.eos == (1, 5)
    assert rules.tokens.pad == 0
    assert rules.generation.max_new_tokens is None


def test_the_checkpoints_own_budget_is_kept() -> None:
    assert rules_of("t5", decoder_start_token_id=0, max_new_tokens=32).generation.max_new_tokens == 32


def test_the_first_token_stands_in_for_a_missing_start_token_and_nothing_for_both() -> None:
    assert rules_of("bart", bos_token_id=9).tokens.start == (9,)
    with pytest.raises(GenerationSettingsError, match="decoder_start_token_id is missing"):
        rules_of("bart")
