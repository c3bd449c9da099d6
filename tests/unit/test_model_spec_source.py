"""Where models come from, and that a checkpoint is read completely or not at all."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForImageTextToText, PretrainedConfig, PreTrainedModel

from exporter.spec.faults import ModelSourceError
from exporter.spec.model_source import ModelSource, resolve_source
from exporter.spec.model_spec import ModelSpec
from exporter.spec.recipe import Recipe
from exporter.spec.weights import random_model
from recipes.geometries.index import GEOMETRIES
from tests.support import tiny_configs, tiny_models

T5_TINY: dict[str, Any] = {"d_model": 16, "d_kv": 4, "d_ff": 8, "num_heads": 2, "vocab_size": 32}
T5_DEPTH: dict[str, Any] = {"num_layers": 1, "num_decoder_layers": 2}
BART_TINY: dict[str, Any] = {
    "vocab_size": 32,
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 8,
    "decoder_ffn_dim": 8,
    "max_position_embeddings": 64,
    "pad_token_id": 1,
    "decoder_start_token_id": 2,
}
LLAMA_TINY: dict[str, Any] = {
    "vocab_size": 32,
    "hidden_size": 16,
    "intermediate_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 8,
}
WHISPER_TINY: dict[str, Any] = BART_TINY | {
    "num_mel_bins": 4,
    "max_source_positions": 10,
    "max_target_positions": 16,
    "bos_token_id": 3,
    "eos_token_id": 4,
    "suppress_tokens": [5, 6],
    "begin_suppress_tokens": [7],
}
TINY: dict[str, PretrainedConfig] = {
    "t5": AutoConfig.for_model(**(GEOMETRIES["t5-small"]() | T5_TINY | T5_DEPTH)),
    "flan-t5": AutoConfig.for_model(**(GEOMETRIES["flan-t5-small"]() | T5_TINY | T5_DEPTH)),
    "mt5": AutoConfig.for_model(**(GEOMETRIES["mt5-small"]() | T5_TINY | T5_DEPTH)),
    "bart": AutoConfig.for_model("bart", **BART_TINY),
    "mbart": AutoConfig.for_model("mbart", **BART_TINY),
    "marian": AutoConfig.for_model("marian", **BART_TINY),
    "pegasus": AutoConfig.for_model("pegasus", **BART_TINY),
    "whisper": AutoConfig.for_model("whisper", **WHISPER_TINY),
    "gpt2": AutoConfig.for_model("gpt2", vocab_size=32, n_positions=16, n_embd=8, n_layer=2, n_head=2),
    "llama": AutoConfig.for_model("llama", **LLAMA_TINY),
    "gemma3": AutoConfig.for_model("gemma3_text", **LLAMA_TINY, sliding_window=4),
}


def tiny(name: str) -> PreTrainedModel:
    return random_model(TINY[name], ModelSpec.from_config(TINY[name]), seed=0)


def saved(name: str, directory: Path) -> Path:
    """A checkpoint directory with a tiny model."""
    tiny(name).save_pretrained(directory)
    return directory


def source_of(model: Path | str, **options: Any) -> ModelSource:
    return resolve_source(Recipe(str(model), **options))


def refusal(model: Path | str, **options: Any) -> str:
    """The one-line message with which finding or loading `model` ends."""
    with pytest.raises(ModelSourceError) as refused:
        source_of(model, **options).load_model()
    assert "\n" not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize("name", TINY)
def test_a_saved_model_loads_with_every_weight_in_float32_without_gradients(name: str, tmp_path: Path) -> None:
    original = tiny(name)
    original.to(torch.float16).save_pretrained(tmp_path)
    source = source_of(tmp_path)
    loaded = source.load_model()
    assert loaded.dtype == torch.float32
    assert not loaded.training
    assert not any(parameter.requires_grad for parameter in loaded.parameters())
    assert sum(p.numel() for p in loaded.parameters()) == sum(p.numel() for p in original.parameters())
    assert sum(p.numel() for p in loaded.parameters()) == ModelSpec.from_config(TINY[name]).parameter_count
    for key, weight in load_file(tmp_path / "model.safetensors").items():
        assert torch.equal(loaded.state_dict()[key], weight.float()), key
    assert source.name == tmp_path.name
    assert source.revision is None


def test_weights_that_are_missing_left_over_or_misshapen_are_listed_at_once(tmp_path: Path) -> None:
    file = saved("llama", tmp_path) / "model.safetensors"
    weights = load_file(file)
    weights.pop("model.layers.0.mlp.up_proj.weight")
    weights["model.layers.7.mlp.up_proj.weight"] = torch.zeros(2)
    weights["model.norm.weight"] = torch.zeros(3)
    save_file(weights, file, metadata={"format": "pt"})
    message = refusal(tmp_path)
    assert "1 weights are missing: model.layers.0.mlp.up_proj.weight" in message
    assert "1 weights are not part of the model: model.layers.7.mlp.up_proj.weight" in message
    assert "1 weights have another shape: model.norm.weight (file [3], model [16])" in message


def test_a_position_table_that_is_a_formula_may_be_missing(tmp_path: Path) -> None:
    original = tiny("pegasus")
    file = saved("pegasus", tmp_path) / "model.safetensors"
    weights = {key: weight for key, weight in load_file(file).items() if "embed_positions" not in key}
    save_file(weights, file, metadata={"format": "pt"})
    loaded = source_of(tmp_path).load_model()
    table = "model.decoder.embed_positions.weight"
    assert torch.equal(loaded.state_dict()[table], original.state_dict()[table])


def test_a_position_table_that_older_versions_saved_may_be_left_over(tmp_path: Path) -> None:
    tiny_models.build("speech_to_text").save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    tables = {f"model.{stack}.embed_positions.weights": torch.ones(7, 32) for stack in ("encoder", "decoder")}
    save_file(load_file(file) | tables, file, metadata={"format": "pt"})
    loaded = source_of(tmp_path).load_model()
    assert float(loaded.model.encoder.embed_positions.weights.std()) > 0.1


@pytest.mark.parametrize(("name", "attention"), [("gpt2", "attn"), ("gpt_neo", "attn.attention")])
def test_buffers_that_old_versions_saved_are_not_left_over(name: str, attention: str, tmp_path: Path) -> None:
    tiny_models.build(name).save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    extra = {
        f"transformer.h.0.{attention}.bias": torch.ones(1, 1, 4, 4),
        f"transformer.h.0.{attention}.masked_bias": torch.ones(1),
    }
    save_file(load_file(file) | extra, file, metadata={"format": "pt"})
    assert source_of(tmp_path).load_model().config.model_type == name


def test_a_classifier_is_not_taken_for_a_generator(tmp_path: Path) -> None:
    file = saved("bart", tmp_path) / "model.safetensors"
    save_file(load_file(file) | {"classification_head.dense.weight": torch.ones(2, 2)}, file, {"format": "pt"})
    assert "classification_head.dense.weight" in refusal(tmp_path)


def test_seeded_weights_depend_on_the_seed_only() -> None:
    spec = ModelSpec.from_config(TINY["gemma3"])
    torch.manual_seed(5)
    undisturbed = torch.rand(1)
    torch.manual_seed(5)
    first, again, other = (random_model(TINY["gemma3"], spec, seed) for seed in (1, 1, 2))
    assert torch.equal(torch.rand(1), undisturbed)
    name = "model.layers.1.mlp.up_proj.weight"
    assert torch.equal(first.state_dict()[name], again.state_dict()[name])
    assert not torch.equal(first.state_dict()[name], other.state_dict()[name])


@pytest.mark.parametrize(("whole", "text"), [("gemma4", tiny_configs.gemma4), ("gemma3", tiny_configs.gemma3)])
def test_the_text_model_of_a_checkpoint_with_images_is_read_alone(tmp_path: Path, whole: str, text: Any) -> None:
    """Its logits are those of the whole model; the image encoder's weights are neither missing nor left over."""
    vision = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = AutoConfig.for_model(whole, text_config=text().to_dict(), vision_config=vision)
    everything = AutoModelForImageTextToText.from_config(config).eval()
    everything.save_pretrained(tmp_path)
    source = source_of(tmp_path)
    assert source.is_text_part
    model = source.load_model()
    ids = torch.randint(3, 60, (2, 9), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        assert torch.equal(model(ids).logits, everything(input_ids=ids).logits)
    assert not any("vision" in name for name, _ in model.named_parameters())


def test_an_encoder_that_also_takes_images_is_read_without_its_image_tower(tmp_path: Path) -> None:
    """Its logits are those of the whole model, and no weight of the tower is loaded or counted."""
    whole = tiny_models.build("t5gemma2")
    whole.save_pretrained(tmp_path)
    source = source_of(tmp_path)
    assert source.is_text_part
    model, spec = source.load_model(), ModelSpec.from_config(source.load_config())
    names = [name for name, _ in model.named_parameters()]
    assert not any("vision" in name or "multi_modal" in name for name in names)
    tower = ("vision_tower", "multi_modal_projector")
    text = [weight.numel() for name, weight in whole.named_parameters() if not any(part in name for part in tower)]
    assert spec.parameter_count == sum(text) == sum(weight.numel() for weight in model.parameters())
    assert ModelSpec.from_config(whole.config).parameter_count == spec.parameter_count
    ids = tiny_models.tokens(2, 9)
    with torch.no_grad():
        expected = whole(input_ids=ids, decoder_input_ids=ids[:, :4]).logits
        assert torch.equal(model(input_ids=ids, decoder_input_ids=ids[:, :4]).logits, expected)


def test_a_text_weight_that_is_left_over_beside_an_image_tower_is_refused(tmp_path: Path) -> None:
    tiny_models.build("t5gemma2").save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    save_file(load_file(file) | {"model.decoder.layers.7.mlp.up_proj.weight": torch.ones(2, 2)}, file, {"format": "pt"})
    assert "model.decoder.layers.7.mlp.up_proj.weight" in refusal(tmp_path)


def test_the_text_model_of_gemma_3n_is_read_without_what_its_image_encoder_needs(tmp_path: Path) -> None:
    """Its image encoder is timm's, which need not be installed: a checkpoint with the names of the whole model."""
    text = tiny_models.build("gemma3n")
    text.save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    other = {"model.vision_tower.stem.weight": torch.ones(2), "model.audio_tower.norm.weight": torch.ones(2)}
    weights = {name.replace("model.", "model.language_model.", 1): value for name, value in load_file(file).items()}
    save_file(weights | other, file, {"format": "pt"})
    config = {
        "model_type": "gemma3n",
        "text_config": text.config.to_dict(),
        "vision_config": {"model_type": "gemma3n_vision", "label_names": ["a"], "num_classes": 1},
        "audio_config": {"model_type": "gemma3n_audio"},
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    source = source_of(tmp_path)
    assert source.is_text_part
    ids = torch.randint(3, 60, (2, 9), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        assert torch.equal(source.load_model()(ids).logits, text(ids).logits)


def test_a_geometry_stands_in_for_a_download() -> None:
    source = source_of("google-t5/T5-Small", random_weights=True)
    assert source.name == "google-t5/t5-small"
    assert source.load_config().d_model == 512
    assert source.load_generation_config().decoder_start_token_id == 0
    assert source.load_tokenizer() is None
    assert source.load_processor() is None


def test_the_geometry_of_whisper_brings_its_features_and_token_rules() -> None:
    source = source_of("whisper-tiny.en", random_weights=True)
    assert source.load_processor().feature_size == 80
    settings = source.load_generation_config()
    assert len(settings.suppress_tokens) == 90
    assert settings.begin_suppress_tokens == [220, 50256]


def test_a_local_config_gives_the_geometry_of_random_weights(tmp_path: Path) -> None:
    TINY["llama"].save_pretrained(tmp_path)
    model = source_of(tmp_path, random_weights=True, seed=3).load_model()
    expected = random_model(TINY["llama"], ModelSpec.from_config(TINY["llama"]), seed=3)
    assert torch.equal(model.lm_head.weight, expected.lm_head.weight)


def test_generation_settings_come_from_the_checkpoint_if_it_has_them(tmp_path: Path) -> None:
    saved("whisper", tmp_path)
    (tmp_path / "generation_config.json").write_text(json.dumps({"max_length": 9, "suppress_tokens": [1]}))
    settings = source_of(tmp_path).load_generation_config()
    assert (settings.max_length, settings.suppress_tokens) == (9, [1])
    (tmp_path / "generation_config.json").unlink()
    assert source_of(tmp_path).load_generation_config().suppress_tokens == [5, 6]


def test_generation_settings_in_the_config_of_an_old_checkpoint_are_kept(tmp_path: Path) -> None:
    (saved("bart", tmp_path) / "generation_config.json").unlink()
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"forced_bos_token_id": 9, "max_length": 33}))
    settings = source_of(tmp_path).load_generation_config()
    assert (settings.forced_bos_token_id, settings.max_length) == (9, 33)
    assert (settings.decoder_start_token_id, settings.forced_eos_token_id, settings.pad_token_id) == (2, 2, 1)
    assert source_of("bart-base", random_weights=True).load_generation_config().forced_bos_token_id == 0


def test_the_callers_config_is_a_copy(tmp_path: Path) -> None:
    TINY["llama"].save_pretrained(tmp_path)
    source = source_of(tmp_path, random_weights=True)
    source.load_config().vocab_size = 5
    assert source.load_config().vocab_size == 32


def test_a_broken_config_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    assert "its config cannot be read" in refusal(tmp_path)


def test_a_type_that_transformers_does_not_know_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "nonsense"}))
    assert "nonsense" in refusal(tmp_path)


def test_a_checkpoint_that_wants_to_run_its_own_code_is_refused(tmp_path: Path) -> None:
    config = {"model_type": "own", "auto_map": {"AutoConfig": "own.OwnConfig"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "own.py").write_text("raise SystemExit('ran')")
    assert "its config cannot be read" in refusal(tmp_path)


def test_a_checkpoint_without_weights_is_one_line(tmp_path: Path) -> None:
    TINY["llama"].save_pretrained(tmp_path)
    assert "its weights cannot be read" in refusal(tmp_path)


def test_a_truncated_weight_file_is_one_line(tmp_path: Path) -> None:
    file = saved("llama", tmp_path) / "model.safetensors"
    file.write_bytes(file.read_bytes()[:200])
    assert "its weights cannot be read" in refusal(tmp_path)


def test_a_broken_tokenizer_is_not_taken_for_none(tmp_path: Path) -> None:
    TINY["llama"].save_pretrained(tmp_path)
    assert source_of(tmp_path).load_tokenizer() is None
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(ModelSourceError, match="its tokenizer cannot be read"):
        source_of(tmp_path).load_tokenizer()


def test_a_directory_of_gguf_files_is_answered_with_one_of_them(tmp_path: Path) -> None:
    (tmp_path / "model-q4.gguf").write_bytes(b"GGUF")
    assert "has no config.json; give one of its files, such as model-q4.gguf" in refusal(tmp_path)


def test_what_is_not_there_is_said_without_asking_the_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.HfApi.model_info", lambda *_, **__: pytest.fail("asked the Hub"))
    shutil.copy(__file__, tmp_path / "file.txt")
    assert "there is no such file or directory" in refusal(tmp_path / "nowhere")
    assert "there is no such file or directory" in refusal("./nowhere")
    assert "there is no such file or directory" in refusal("two words")
    assert "there is no such file" in refusal("nowhere.gguf")
    assert "it is a file; give a checkpoint directory" in refusal(tmp_path / "file.txt")
