"""`Recipe` refuses what is wrong in one go; the published geometries arrive in the config as they are."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from transformers import AutoConfig

from exporter.spec.faults import PlanError, RecipeError
from exporter.spec.model_spec import ModelSpec
from exporter.spec.recipe import Recipe
from recipes.geometries.index import ASSISTANTS, GEOMETRIES, HUB_IDS
from runtime_shims.contract.manifest import ResolvedRecipe


def faults_of(**values: Any) -> tuple[str, ...]:
    with pytest.raises(RecipeError) as refused:
        Recipe(**({"model": "m"} | values))
    assert isinstance(refused.value, ValueError)
    assert "\n" not in str(refused.value)
    return refused.value.faults


def test_all_wrong_values_are_listed_at_once() -> None:
    faults = faults_of(max_batch=0, max_enc=-1, prefill_chunk=0, attention="flash", quantize="q5", seed=-1)
    assert len(faults) == 6
    for option in ("--max-batch 0", "--max-enc -1", "--prefill-chunk 0", "--attention flash", "--seed -1"):
        assert any(fault.startswith(option) for fault in faults)


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ({"model": " "}, "MODEL is empty"),
        ({"max_batch": 0}, "--max-batch 0 is not allowed; use a whole number of at least 1"),
        ({"max_batch": True}, "--max-batch True is not allowed; use a whole number of at least 1"),
        ({"max_dec": 1.5}, "--max-dec 1.5 is not allowed; use a whole number of at least 1"),
        ({"max_draft": -1}, "--max-draft -1 is not allowed; use a whole number of at least 0"),
        ({"backends": ()}, "--backend needs at least one of xnnpack, portable, onnx"),
        ({"backends": ("xnnpack", "xnnpack")}, "--backend is given twice in xnnpack, xnnpack"),
        ({"backends": ("cuda",)}, "--backend cuda is unknown; available: xnnpack, portable, onnx"),
        ({"attention": "flash"}, "--attention flash is unknown; available: fused, portable"),
        ({"quantize": "q5"}, "--quantize q5 is unknown; available: none, 8da8w, 8da4w, int8-weights-kv"),
        ({"quantize": "8da4w", "embedding_bits": 3}, "--embedding-bits 3 is not allowed; use 8, 4"),
        (
            {"quantize": "8da8w", "group_size": 48},
            "--group-size 48 is not allowed; use 32, 64, 96, 128, 160, 192, 224, 256",
        ),
        (
            {"embedding_bits": 4},
            "--embedding-bits 4 needs a quantized model; add --quantize 8da8w or leave it out",
        ),
        (
            {"dtype": "float16", "attention": "portable"},
            "--dtype float16 needs our operators; use --attention fused or leave it out",
        ),
        (
            {"index_dtype": "int32"},
            "--index-dtype int32 needs --backend onnx, and only it; leave it out",
        ),
        (
            {"index_dtype": "int16", "backends": ("onnx",)},
            "--index-dtype int16 is unknown; available: int64, int32",
        ),
        ({"dtype": "bfloat16"}, "--dtype bfloat16 is unknown; available: float32, float16"),
        ({"group_size": 64}, "--group-size 64 needs a quantized model; add --quantize 8da8w or leave it out"),
        (
            {"quantize": "8da4w", "embedding_bits": 4, "attention": "portable"},
            "--embedding-bits 4 needs our operators; use --attention fused or 8 bits",
        ),
        (
            {"quantize": "8da8w", "group_size": 64, "attention": "portable"},
            "--group-size with 8da8w needs our operators; use --attention fused or leave it out",
        ),
        (
            {"quantize": "int8-weights-kv", "attention": "portable"},
            "--quantize int8-weights-kv needs our operators; use --attention fused or --quantize 8da8w",
        ),
        (
            {"draft": "self-int4", "quantize": "8da4w"},
            "--draft self-int4 of a model in 4 bits is the model itself; leave it out, or --quantize another scheme",
        ),
        ({"draft": " "}, "--draft is empty; use self-int4, or the name of a model"),
        (
            {"draft": "self-int4", "max_draft": 0},
            "--draft self-int4 drafts nothing with --max-draft 0; raise it or leave --draft out",
        ),
        (
            {"quantize": "8da8w", "backends": ("portable",), "attention": "portable"},
            "--quantize 8da8w with --attention portable needs --backend xnnpack, and only it",
        ),
        (
            {"quantize": "int8-weights-kv", "backends": ("onnx",)},
            "--quantize int8-weights-kv is not available with --backend onnx; use 8da8w, or leave it out",
        ),
        (
            {"quantize": "8da4w", "backends": ("onnx", "xnnpack", "portable")},
            "--quantize 8da4w means other numbers with --backend onnx than with xnnpack and portable; "
            "export a bundle for each",
        ),
        (
            {"quantize": "8da4w", "backends": ("onnx",), "group_size": 0},
            "--group-size 0 is for 8 bits, and 4 bits need groups; use 32, or 8 bits",
        ),
        (
            {"quantize": "8da8w", "backends": ("onnx",), "group_size": 0, "embedding_bits": 4},
            "--group-size 0 is for 8 bits, and 4 bits need groups; use 32, or 8 bits",
        ),
        (
            {"quantize": "8da8w", "group_size": 0},
            "--group-size 0 is not allowed; use 32, 64, 96, 128, 160, 192, 224, 256",
        ),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(values: dict[str, Any], fault: str) -> None:
    assert faults_of(**values) == (fault,)


@pytest.mark.parametrize(
    ("values", "start"),
    [
        ({"draft": "self-layers=4"}, "--draft self-layers=4 is not available; use self-int4, or the name"),
        ({"draft": "self"}, "--draft self is not available; use self-int4, or the name of a model"),
        ({"draft": "prompt-lookup"}, "--draft prompt-lookup needs nothing in the bundle; leave it out, and run with"),
    ],
)
def test_what_is_not_built_yet_is_refused_with_what_is(values: dict[str, Any], start: str) -> None:
    (fault,) = faults_of(**values)
    assert fault.startswith(start)


def test_a_recipe_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        Recipe("m").max_batch = 2  # type: ignore[misc]


def spec_of(name: str) -> ModelSpec:
    return ModelSpec.from_config(AutoConfig.for_model(**GEOMETRIES[name]()))


def test_resolving_keeps_what_was_asked_for_and_decides_the_rest() -> None:
    asked = Recipe(
        "m", max_batch=3, max_dec=70, prefill_chunk=9, backends=("portable",), attention="portable"
    )
    assert asked.resolve(spec_of("gpt2")) == ResolvedRecipe(
        model="m",
        max_batch=3,
        max_enc=None,
        max_dec=70,
        max_draft=4,
        prefill_chunk=9,
        backends=("portable",),
        attention="portable",
        quantize="none",
        embedding_bits=None,
        group_size=None,
        dtype="float32",
        index_dtype="int64",
        draft=None,
    )


def test_a_quantized_model_has_an_embedding_of_8_bits_and_groups_of_32_unless_asked_otherwise() -> None:
    spec = spec_of("gpt2")
    decided = Recipe("m", quantize="8da4w").resolve(spec)
    assert (decided.quantize, decided.embedding_bits, decided.group_size) == ("8da4w", 8, 32)
    asked = Recipe("m", quantize="8da8w", embedding_bits=4, group_size=96).resolve(spec)
    assert (asked.quantize, asked.embedding_bits, asked.group_size) == ("8da8w", 4, 96)


@pytest.mark.parametrize(("max_dec", "drafts"), [(1, 0), (2, 1), (4, 3), (5, 4), (70, 4)])
def test_drafts_that_nobody_asked_for_fit_the_decoder(max_dec: int, drafts: int) -> None:
    resolved = Recipe("m", max_dec=max_dec).resolve(spec_of("gpt2"))
    assert (resolved.max_draft, resolved.prefill_chunk) == (drafts, max_dec)


def test_drafts_that_were_asked_for_are_refused_where_they_do_not_fit() -> None:
    with pytest.raises(PlanError, match="--max-draft 4 does not fit --max-dec 4; use at most 3"):
        Recipe("m", max_dec=4, max_draft=4).resolve(spec_of("gpt2"))


def test_attention_is_fused_unless_asked_otherwise() -> None:
    spec = spec_of("gpt2")
    assert Recipe("m").resolve(spec).attention == "fused"
    assert Recipe("m", attention="portable").resolve(spec).attention == "portable"


@pytest.mark.parametrize("name", [*GEOMETRIES, *ASSISTANTS])
def test_every_geometry_names_the_hub_id_it_was_published_under(name: str) -> None:
    make = GEOMETRIES.get(name) or ASSISTANTS[name]
    assert make.__doc__
    assert make.__doc__.split(",")[0].split(":")[0] == HUB_IDS[name]
    assert make() is not make()


@pytest.mark.parametrize("name", GEOMETRIES)
def test_no_value_of_a_geometry_is_lost_or_changed_by_the_config(name: str) -> None:
    geometry = GEOMETRIES[name]()
    config = AutoConfig.for_model(**geometry)
    assert not config.architectures or config.architectures == geometry["architectures"]
    moved = {"rope_theta", "rope_local_base_freq", "rope_scaling", "sliding_window_pattern"}
    moved |= {"global_head_dim", "head_dim"} if "global_head_dim" in geometry else set()  # in the config of each layer
    moved |= {"forced_bos_token_id", "max_length"}  # generation settings, see ModelSource.load_generation_config
    moved |= {"tie_word_embeddings"} if geometry["model_type"] in ("t5", "mt5") else set()
    moved |= {"sliding_window"} if not geometry.get("use_sliding_window", True) else set()
    for key in geometry.keys() - moved:
        assert getattr(config, key) == geometry[key], key


def test_rotary_values_arrive_where_the_model_reads_them() -> None:
    gemma = AutoConfig.for_model(**GEOMETRIES["gemma-3-270m"]()).rope_parameters
    assert gemma["full_attention"]["rope_theta"] == 1_000_000.0
    assert gemma["sliding_attention"]["rope_theta"] == 10_000.0
    llama = AutoConfig.for_model(**GEOMETRIES["llama-3.2-1b"]()).rope_parameters
    assert (llama["rope_type"], llama["rope_theta"], llama["factor"]) == ("llama3", 500_000.0, 32.0)
    assert AutoConfig.for_model(**GEOMETRIES["smollm2-135m"]()).rope_parameters["rope_theta"] == 100_000.0
