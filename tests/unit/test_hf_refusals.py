"""What a bundle refuses as a model of transformers: in one line that says what is allowed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from processes import listing
from transformers import DynamicCache, GenerationConfig

from exporter.hf import FixedCapacityModelForCausalLM, FixedCapacityModelForSeq2SeqLM, pipeline
from exporter.hf_models.refusals import ARGUMENTS, REFUSED, SERVED, WITHOUT_EFFECT, GenerateError
from runtime_shims.contract.errors import BundleMissing, UnsupportedSetting, UserInputError

PROMPT = torch.tensor([[5, 6, 7]])


@pytest.fixture(scope="module")
def model(llama_bundle: Path) -> FixedCapacityModelForCausalLM:
    return FixedCapacityModelForCausalLM.from_pretrained(llama_bundle)


def test_every_field_of_generation_config_is_served_or_refused() -> None:
    fields = {name for name in vars(GenerationConfig()) if not name.startswith("_")}
    decided = [*SERVED, *WITHOUT_EFFECT, *REFUSED]
    assert len(decided) == len(set(decided))
    assert fields - set(decided) == set()


ASKED: dict[str, Any] = {
    "num_beams": 4,
    "use_cache": False,
    "cache_implementation": "static",
    "cache_config": {"a": 1},
    "guidance_scale": 2.0,
    "output_attentions": True,
    "output_hidden_states": True,
    "use_mtp": True,
    "assistant_early_exit": 2,
    "assistant_ensemble_weight": 0.5,
    "penalty_alpha": 0.5,
    "dola_layers": "low",
    "constraints": ["x"],
    "force_words_ids": [[[5]]],
    "assistant_model": "x",
    "assistant_tokenizer": "x",
    "negative_prompt_ids": PROMPT,
    "negative_prompt_attention_mask": PROMPT,
    "custom_generate": "x",
    "encoder_outputs": PROMPT,
    "inputs_embeds": PROMPT,
    "position_ids": PROMPT,
    "labels": PROMPT,
}


@pytest.mark.parametrize(("name", "value"), ASKED.items(), ids=ASKED)
def test_what_a_program_cannot_do_is_refused_by_name(
    model: FixedCapacityModelForCausalLM, name: str, value: object
) -> None:
    with pytest.raises(GenerateError, match=rf"\b{name}\b") as refused:
        model.generate(PROMPT, **{name: value, "trust_remote_code": True, "max_new_tokens": 2})
    assert "\n" not in str(refused.value)
    advice = REFUSED[name][1] if name in REFUSED else ARGUMENTS[name]
    assert advice in str(refused.value)


def test_arguments_in_transformers_order_are_held_to_the_same(model: FixedCapacityModelForCausalLM) -> None:
    with pytest.raises(GenerateError, match=r"assistant_model: .*; negative_prompt_ids: "):
        model.generate(PROMPT, None, None, None, None, None, "x", None, PROMPT)


def test_a_generation_config_is_held_to_the_same(model: FixedCapacityModelForCausalLM) -> None:
    with pytest.raises(GenerateError, match=r"num_beams=3: .*; guidance_scale=2\.0: "):
        model.generate(PROMPT, GenerationConfig(num_beams=3, guidance_scale=2.0))


def test_what_is_neutral_is_not_refused(model: FixedCapacityModelForCausalLM) -> None:
    neutral = {"num_beams": 1, "use_cache": True, "guidance_scale": 1.0, "output_attentions": False}
    assert model.generate(PROMPT, **neutral, max_new_tokens=2).shape == (1, 5)


def test_more_drafts_than_the_bundle_verifies_are_refused(model: FixedCapacityModelForCausalLM) -> None:
    with pytest.raises(GenerateError, match=r"prompt_lookup_num_tokens=3: .* at most 2 drafts; .*--max-draft"):
        model.generate(PROMPT, prompt_lookup_num_tokens=3)


def test_a_cache_of_transformers_is_refused(model: FixedCapacityModelForCausalLM) -> None:
    for name in ("cache", "past_key_values"):
        with pytest.raises(GenerateError, match="cache is a DynamicCache"):
            model.generate(PROMPT, **{name: DynamicCache()})
    with pytest.raises(GenerateError, match="cache is a DynamicCache"):
        model(PROMPT, cache=DynamicCache())


def test_a_prompt_that_does_not_fit_is_refused(model: FixedCapacityModelForCausalLM) -> None:
    with pytest.raises(Exception, match=r"has 97 tokens, the decoder holds at most 96 .*--max-dec"):
        model.generate(torch.full((1, 97), 5), max_new_tokens=1)


def test_a_misspelled_argument_is_refused(model: FixedCapacityModelForCausalLM) -> None:
    with pytest.raises(ValueError, match="max_new_token"):
        model.generate(PROMPT, max_new_token=3)
    with pytest.raises(GenerateError, match="tokens: programs do not take it"):
        model(PROMPT, tokens=3)
    for tokens in (None, [[5, 6]], PROMPT[0]):
        with pytest.raises(GenerateError, match="input_ids must be token ids"):
            model(tokens)


@pytest.mark.parametrize("keep", [-1, torch.tensor([0, 2])])
def test_logits_are_kept_by_number(model: FixedCapacityModelForCausalLM, keep: object) -> None:
    with pytest.raises(GenerateError, match=r"logits_to_keep=.* must be a number of last tokens, or 0 for all"):
        model(PROMPT, logits_to_keep=keep)


def test_continuous_batching_is_refused(model: FixedCapacityModelForCausalLM) -> None:
    with pytest.raises(UnsupportedSetting, match="rows of a request begin together"):
        model.generate_batch([[5, 6, 7]])


@pytest.mark.parametrize("where", ["cuda", 0, torch.device("meta")])
def test_another_device_is_refused(model: FixedCapacityModelForCausalLM, where: Any) -> None:
    with pytest.raises(UnsupportedSetting, match="give device='cpu'"):
        model.to(where)


def test_the_cpu_and_float32_are_where_it_is(model: FixedCapacityModelForCausalLM) -> None:
    assert model.to("cpu").to(device=torch.device("cpu"), dtype=torch.float32).eval() is model
    with pytest.raises(UnsupportedSetting, match=r"torch.float16: .*--dtype"):
        model.to(torch.float16)


def test_options_that_do_not_exist_are_refused_with_those_that_do(llama_bundle: Path) -> None:
    load = FixedCapacityModelForCausalLM.from_pretrained
    with pytest.raises(UserInputError, match=r"max_batch, device_map is no option here; there are threads.*export="):
        load(llama_bundle, max_batch=3, device_map="auto")
    with pytest.raises(UserInputError, match="frob is no option here; there are threads, recipe, device, max_batch"):
        load(llama_bundle, export=True, frob=3)


@pytest.mark.parametrize("threads", ["x", 0, True, 1.5])
def test_threads_that_are_no_count_are_refused(llama_bundle: Path, threads: object) -> None:
    with pytest.raises(UserInputError, match=f"threads={threads!r} must be a whole number of at least 1"):
        FixedCapacityModelForCausalLM.from_pretrained(llama_bundle, threads=threads)


def test_a_named_recipe_exports_a_checkpoint_within_its_device(llama_checkpoint: Path) -> None:
    load = FixedCapacityModelForCausalLM.from_pretrained
    chosen = {"recipe": "smollm2-135m", "device": "phone", "attention": "fused", "max_dec": 24, "prefill_chunk": 8}
    with pytest.raises(UserInputError, match=r"recipe smollm2-135m for a phone, .*--max-memory 1\.0 kB"):
        load(llama_checkpoint, export=True, **chosen, max_memory="1000")
    with pytest.raises(UserInputError, match="--recipe smollm2 is unknown; did you mean smollm2-"):
        load(llama_checkpoint, export=True, recipe="smollm2")
    with pytest.raises(UserInputError, match="--device phone chooses among the values of a named recipe"):
        load(llama_checkpoint, export=True, device="phone")


def test_an_export_that_cannot_be_is_refused_before_it_begins(
    llama_bundle: Path, llama_checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("exporter.pipeline.export_bundle")
    load = FixedCapacityModelForCausalLM.from_pretrained
    with pytest.raises(UserInputError, match="--max-batch 0 is not allowed"):
        load(llama_checkpoint, export=True, max_batch=0)
    with pytest.raises(UserInputError, match=r"recipe: --backend port is unknown; available: xnnpack, portable, onnx$"):
        load(llama_checkpoint, export=True, backends="port")
    with pytest.raises(UserInputError, match="it is a bundle already; leave export=True and its options out"):
        load(llama_bundle, export=True)
    with pytest.raises(UserInputError, match="it is decoder_only and no text_seq2seq; use FixedCapacityModelForCausal"):
        FixedCapacityModelForSeq2SeqLM.from_pretrained(llama_checkpoint, export=True)


def test_an_output_that_exists_is_kept_without_force(llama_bundle: Path, llama_checkpoint: Path) -> None:
    before = listing(llama_bundle)
    with pytest.raises(UserInputError, match="already exists; give --force to replace it"):
        FixedCapacityModelForCausalLM.from_pretrained(llama_checkpoint, export=True, output=llama_bundle)
    assert listing(llama_bundle) == before


def test_a_bundle_of_another_kind_is_refused_with_its_class(llama_bundle: Path) -> None:
    with pytest.raises(UserInputError, match="it is decoder_only and no text_seq2seq; use FixedCapacityModelForCausal"):
        FixedCapacityModelForSeq2SeqLM.from_pretrained(llama_bundle)


def test_a_checkpoint_in_the_place_of_a_bundle_is_refused(llama_checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(UserInputError, match="it is a checkpoint and no bundle; add export=True"):
        FixedCapacityModelForCausalLM.from_pretrained(llama_checkpoint)
    with pytest.raises(BundleMissing):
        FixedCapacityModelForCausalLM.from_pretrained(tmp_path)


def test_a_bundle_without_its_config_is_refused(llama_bundle: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(llama_bundle, tmp_path / "old.bundle")
    manifest = json.loads((copy / "manifest.json").read_text("utf-8"))
    manifest["files"] = [entry for entry in manifest["files"] if entry["role"] != "config"]
    (copy / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    with pytest.raises(UserInputError, match=r"it has no config.json and no generation_config.json; export"):
        FixedCapacityModelForCausalLM.from_pretrained(copy)


def test_a_task_of_another_kind_is_refused(model: FixedCapacityModelForCausalLM) -> None:
    with pytest.raises(UserInputError, match="task translation: it takes a FixedCapacityModelForSeq2SeqLM"):
        pipeline("translation", model)
    with pytest.raises(UserInputError, match="it takes a FixedCapacityModelForCausalLM, got a dict"):
        pipeline("text-generation", {})
    with pytest.raises(UserInputError, match="task fill-mask: bundles have none of this name; use one of text-gen"):
        pipeline("fill-mask", model)
