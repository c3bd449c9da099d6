"""Configs that cannot be exported: every fault in one message, each named."""

from __future__ import annotations

from typing import Any

import pytest
from transformers import AutoConfig, PretrainedConfig, Speech2TextConfig
from transformers.utils.quantization_config import GgufConfig

from exporter.spec.faults import SpecError, UnsupportedModelError
from exporter.spec.model_spec import ModelSpec
from exporter.spec.recipe import Recipe
from recipes.geometries.index import GEOMETRIES
from tests.support import tiny_seq2seq


def config_of(name: str, **changes: Any) -> PretrainedConfig:
    return AutoConfig.for_model(**(GEOMETRIES[name]() | changes))


def faults_of(config: PretrainedConfig) -> tuple[str, ...]:
    with pytest.raises(UnsupportedModelError) as refused:
        ModelSpec.from_config(config)
    assert "\n" not in str(refused.value)
    assert all(fault in str(refused.value) for fault in refused.value.faults)
    return refused.value.faults


def test_all_faults_are_listed_at_once() -> None:
    config = config_of("gemma-3-270m", use_bidirectional_attention=True)
    config.rope_parameters["full_attention"] = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e6}
    config.quantization_config = {"quant_method": "gptq"}
    faults = faults_of(config)
    assert len(faults) == 3
    assert any("rope type dynamic" in fault for fault in faults)
    assert any("bidirectional" in fault for fault in faults)
    assert any("quantized with gptq" in fault for fault in faults)


@pytest.mark.parametrize("kind", ["dynamic", "longrope"])
def test_frequencies_that_change_while_a_sequence_grows_are_refused(kind: str) -> None:
    config = config_of("llama-3.2-1b")
    config.rope_parameters = {"rope_type": kind, "rope_theta": 1e4, "factor": 2.0}
    assert faults_of(config) == (
        f"rope type {kind} is not supported (supported: default, linear, llama3, yarn, proportional)",
    )


@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_each_stack_of_a_config_that_nests_them_is_checked(stack: str) -> None:
    config = tiny_seq2seq.t5gemma2()
    nested = config.decoder if stack == "decoder" else config.encoder.text_config
    nested.rope_parameters["full_attention"]["rope_type"] = "dynamic"
    nested.num_key_value_heads = 3
    heads, rope = faults_of(config)
    assert heads == "num_key_value_heads is 3, expected a divisor of num_attention_heads (4)"
    assert rope.startswith("rope type dynamic is not supported")


@pytest.mark.parametrize("kind", ["default", "linear", "llama3", "yarn"])
def test_frequencies_that_stay_are_accepted(kind: str) -> None:
    config = config_of("smollm2-135m", num_hidden_layers=1)
    scaling = {"rope_type": kind, "rope_theta": 1e4, "factor": 2.0, "original_max_position_embeddings": 64}
    config.rope_parameters = scaling | {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
    assert ModelSpec.from_config(config).max_positions == 8192


def test_an_unknown_type_is_refused_with_the_supported_ones() -> None:
    (fault,) = faults_of(AutoConfig.for_model("bert"))
    assert all(name in fault for name in ("t5", "whisper", "gemma3_text"))


def test_chunked_attention_is_refused_with_its_layers() -> None:
    config = AutoConfig.for_model("llama4_text", num_hidden_layers=4, num_local_experts=1)
    faults = faults_of(config)
    assert "attention of type chunked_attention in layers 0-2" in faults


def test_experts_of_a_type_that_is_not_known_are_refused() -> None:
    assert "mixture of experts is not supported" in faults_of(AutoConfig.for_model("phimoe"))


@pytest.mark.parametrize(
    ("model_type", "fact"),
    [
        ("mpt", "asks no registered attention function"),
        ("prophetnet", "n-gram attention"),
    ],
)
def test_types_whose_attention_is_another_are_refused_with_the_fact(model_type: str, fact: str) -> None:
    assert fact in faults_of(AutoConfig.for_model(model_type))[0]


@pytest.mark.parametrize(
    ("changes", "fact"),
    [
        ({"alibi": True}, "alibi is True: its bias is rounded to bfloat16 by absolute position"),
        (
            {"new_decoder_architecture": True, "num_kv_heads": 3},
            "num_kv_heads is 3, expected a divisor of num_attention_heads (8)",
        ),
        (
            {"multi_query": False, "num_kv_heads": 2},
            "num_kv_heads is 2, expected num_attention_heads (8) without multi_query",
        ),
        (
            {"new_decoder_architecture": True, "parallel_attn": False},
            "transformers does not run new_decoder_architecture without parallel_attn",
        ),
        (
            {"new_decoder_architecture": True, "num_kv_heads": 2, "num_ln_in_parallel_attn": 3},
            "num_ln_in_parallel_attn is 3, expected 1 or 2",
        ),
        (
            {"num_ln_in_parallel_attn": 2},
            "transformers does not run num_ln_in_parallel_attn 2 without new_decoder_architecture",
        ),
    ],
    ids=str,
)
def test_a_falcon_that_cannot_be_run_is_refused_with_the_fact(changes: dict[str, Any], fact: str) -> None:
    shape = {"hidden_size": 64, "num_attention_heads": 8, "num_hidden_layers": 1}
    (fault,) = faults_of(AutoConfig.for_model("falcon", **(shape | changes)))
    assert fault.startswith(fact)


def test_a_bloom_that_adds_products_in_parts_is_refused() -> None:
    (fault,) = faults_of(AutoConfig.for_model("bloom", slow_but_exact=True, pretraining_tp=4))
    assert fault == "slow_but_exact with pretraining_tp 4 adds products in parts; set it to False"


def test_phi_3_with_frequencies_for_long_texts_is_refused() -> None:
    factors = [1.0] * 48
    rope = {"rope_type": "longrope", "short_factor": factors, "long_factor": factors}
    (fault,) = faults_of(AutoConfig.for_model("phi3", num_hidden_layers=1, rope_parameters=rope))
    assert fault.startswith("rope type longrope is not supported")


def test_shares_and_streams_that_gemma_3n_cannot_have_are_refused_together() -> None:
    config = AutoConfig.for_model("gemma3n_text", num_hidden_layers=2, num_kv_shared_layers=0)
    config.activation_sparsity_pattern, config.altup_active_idx = [1.0, 0.95], 4
    config.hidden_size_per_layer_input = 0
    assert faults_of(config) == (
        "activation_sparsity_pattern holds 1.0, expected numbers from 0 to below 1",
        "hidden_size_per_layer_input is 0, expected a number from 1 on",
        "altup_active_idx is 4, expected a number from 0 to below altup_num_inputs (4)",
    )


def test_shared_layers_of_a_type_that_nothing_owns_are_refused() -> None:
    types = ["full_attention", "sliding_attention", "full_attention"]
    config = AutoConfig.for_model("gemma3n_text", num_hidden_layers=3, layer_types=types, num_kv_shared_layers=0)
    config.num_kv_shared_layers = 2
    (fault,) = faults_of(config)
    assert fault.startswith("transformers refuses the config: The set of layer types producing a cache")


def test_a_model_with_images_is_refused() -> None:
    faults = faults_of(AutoConfig.for_model("llava"))
    assert any("vision input" in fault for fault in faults)


def test_layers_that_share_keys_with_nobody_in_particular_are_refused() -> None:
    config = AutoConfig.for_model("llama")
    config.num_kv_shared_layers = 2
    assert faults_of(config) == ("it does not say which layers share keys and values",)


def test_an_unknown_encoder_is_refused() -> None:
    fault = faults_of(AutoConfig.for_model("led"))[0]
    assert "encoder-decoder" in fault
    assert "t5gemma" in fault


def test_a_bart_decoder_alone_is_refused() -> None:
    assert faults_of(config_of("bart-base", is_encoder_decoder=False)) == (
        "is_encoder_decoder is False, expected True",
    )


def test_a_gpt2_with_cross_attention_is_refused() -> None:
    assert faults_of(config_of("gpt2", add_cross_attention=True)) == (
        "cross-attention without an encoder is not supported",
    )


def test_missing_numbers_are_listed_by_name() -> None:
    config = config_of("t5-small", num_decoder_layers=0, d_kv=0)
    faults = faults_of(config)
    assert any(fault.startswith("num_decoder_layers is 0") for fault in faults)
    assert any(fault.startswith("d_kv is 0") for fault in faults)


def test_a_sliding_layer_without_a_window_is_refused() -> None:
    (fault,) = faults_of(config_of("gemma-3-270m", sliding_window=None))
    assert fault == "sliding_window is missing for layers 0-4, 6-10, 12-16"


def test_weights_of_a_gguf_file_are_accepted() -> None:
    config = config_of("smollm2-135m")
    config.quantization_config = GgufConfig()
    assert ModelSpec.from_config(config).model_type == "llama"


def test_a_config_that_contradicts_itself_is_refused_in_one_line() -> None:
    (fault,) = faults_of(config_of("opus-mt-en-de", decoder_vocab_size=99))
    assert "no model can be made from this config" in fault
    assert "padding_idx" in fault.lower()


@pytest.mark.parametrize("kv_heads", [2, 0, -3, 18])
def test_key_value_heads_that_query_heads_cannot_share_evenly_are_refused(kv_heads: int) -> None:
    assert faults_of(config_of("smollm2-135m", num_key_value_heads=kv_heads)) == (
        f"num_key_value_heads is {kv_heads}, expected a divisor of num_attention_heads (9)",
    )


@pytest.mark.parametrize("kv_heads", [1, 3, 9, None])
def test_key_value_heads_that_query_heads_share_evenly_are_accepted(kv_heads: int | None) -> None:
    layer = ModelSpec.from_config(config_of("smollm2-135m", num_key_value_heads=kv_heads)).layers[0]
    assert layer.kv_heads == (kv_heads or 9)


@pytest.mark.parametrize("name", ["attn_logit_softcapping", "final_logit_softcapping"])
@pytest.mark.parametrize("cap", [0.0, -30.0, float("nan"), float("inf")])
def test_a_soft_cap_that_is_no_positive_number_is_refused(name: str, cap: float) -> None:
    (fault,) = faults_of(config_of("gemma-3-270m", **{name: cap}))
    assert fault == f"{name} is {cap}, expected a positive finite number or none"


def test_a_negative_window_is_refused() -> None:
    (fault,) = faults_of(config_of("gemma-3-270m", sliding_window=-1))
    assert fault == "sliding_window is -1, expected a positive whole number"


@pytest.mark.parametrize("base", [0.0, -1.0, float("nan"), float("inf")])
def test_a_rotary_base_that_is_no_positive_number_is_refused(base: float) -> None:
    config = config_of("llama-3.2-1b")
    config.rope_parameters = {"rope_type": "default", "rope_theta": base}
    assert f"rope_theta is {base}, expected a positive finite number" in faults_of(config)


@pytest.mark.parametrize(
    "changes",
    [
        {"encoder_num_key_value_heads": 4},
        {"decoder_num_key_value_heads": 4},
        {"encoder_num_attention_heads": 4, "encoder_num_key_value_heads": 4},
    ],
    ids=str,
)
def test_heads_that_transformers_moonshine_does_not_run_are_refused(changes: dict[str, int]) -> None:
    """Its code gives both stacks the encoder's heads, and its queries as many as its keys."""
    (fault,) = faults_of(config_of("moonshine-tiny", **changes))
    assert fault.startswith("transformers runs it with one number of heads everywhere, got encoder_num_attention_heads")
    assert all(f"{name} {value}" in fault for name, value in changes.items())


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"conv_kernel_sizes": [4, 5]}, "conv_kernel_sizes is [4, 5], expected odd numbers"),
        ({"conv_kernel_sizes": [5, 5, 5], "num_conv_layers": 3}, "num_conv_layers is 3, expected 2"),
        ({"input_channels": 2}, "input_channels is 2, expected 1"),
        ({"conv_channels": 33}, "conv_channels is 33, expected an even number: half of them are gates"),
        ({"input_feat_per_channel": 0}, "input_feat_per_channel is 0, expected a positive whole number"),
    ],
    ids=str,
)
def test_convolutions_that_give_other_positions_are_refused(changes: dict[str, Any], fault: str) -> None:
    assert faults_of(Speech2TextConfig(**changes)) == (fault,)


def test_an_encoder_of_frames_takes_a_fourth_as_many_positions() -> None:
    spec = ModelSpec.from_config(Speech2TextConfig(max_source_positions=1002))
    assert spec.encoder is not None
    assert spec.encoder.max_positions == 251
    with pytest.raises(SpecError, match=r"--max-enc 252 exceeds the model's 251 encoder positions; use at most 251"):
        Recipe("s2t", max_enc=252).resolve(spec)
    assert Recipe("s2t").resolve(spec).max_enc == 251


def test_a_moonshine_without_its_numbers_is_refused_with_their_names() -> None:
    config = config_of("moonshine-tiny")
    config.encoder_num_hidden_layers = 0
    assert faults_of(config) == ("encoder_num_hidden_layers is 0, expected a positive whole number",)
