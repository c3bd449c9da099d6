"""A model whose weights stay in their files until integers are made of them, against the same model in memory."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import PreTrainedModel

from exporter.spec.model_source import ModelSource, resolve_source
from exporter.spec.model_spec import ModelSpec
from exporter.spec.open_model import open_model
from exporter.spec.recipe import Recipe
from exporter.spec.streamed_model import of_random
from exporter.spec.weight_format import WeightFormat
from exporter.weights.quantize import keep_integers_only, quantize_model
from tests.support.tiny_models import CASES, build, tokens

W4 = WeightFormat(4, 8, 32)
COMPUTED = {"marian", "pegasus"}
"""Families whose position tables are weights, computed where a checkpoint leaves them out."""


def saved(name: str, directory: Path, dtype: torch.dtype = torch.bfloat16) -> ModelSource:
    build(name).to(dtype).save_pretrained(directory)
    return resolve_source(Recipe(str(directory)))


def values(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers, those that are not saved included."""
    return dict(model.named_parameters()) | dict(model.named_buffers())


def same(one: nn.Module, other: nn.Module) -> bool:
    left, right = values(one), values(other)
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


@pytest.mark.parametrize("name", CASES)
def test_an_opened_model_is_the_loaded_one_once_its_weights_are_read(name: str, tmp_path: Path) -> None:
    source = saved(name, tmp_path)
    opened, loaded = open_model(source), source.load_model()
    on_disk = [parameter for parameter in opened.model.parameters() if parameter.is_meta]
    assert len(on_disk) == len(opened.rows)
    assert bool(on_disk) == (name not in COMPUTED)
    opened.read_rest()
    assert same(opened.model, loaded)
    assert all(parameter.dtype == torch.float32 for parameter in opened.model.parameters())


@pytest.mark.parametrize("name", ["t5", "gpt2", "gemma4", "whisper"])
def test_integers_of_an_opened_model_are_those_of_the_loaded_one(name: str, tmp_path: Path) -> None:
    source = saved(name, tmp_path)
    opened, loaded = open_model(source), source.load_model()
    quantize_model(opened.model, W4, opened.rows, keep_floats=False)
    opened.read_rest()
    quantize_model(loaded, W4)
    keep_integers_only(loaded)
    assert same(opened.model, loaded)


@pytest.mark.parametrize("name", ["gpt2", "gemma3"])
def test_answers_with_integers_are_those_with_rounded_floats(name: str, tmp_path: Path) -> None:
    answers = []
    for keep_floats in (True, False):
        opened = open_model(saved(name, tmp_path))
        quantize_model(opened.model, W4, opened.rows, keep_floats=keep_floats)
        opened.read_rest()
        answers.append(logits(opened.model))
    torch.testing.assert_close(*answers, rtol=0, atol=0)


def logits(model: PreTrainedModel) -> Tensor:
    with torch.no_grad():
        return model(tokens(2, 9)).logits


def test_a_checkpoint_of_two_types_loses_nothing(tmp_path: Path) -> None:
    source = saved("llama", tmp_path)
    path = tmp_path / "model.safetensors"
    weights = load_file(path)
    weights["model.norm.weight"] = weights["model.norm.weight"].float() + 1e-4
    save_file(weights, path, metadata={"format": "pt"})
    opened = open_model(source)
    assert torch.equal(opened.model.model.norm.weight, weights["model.norm.weight"])
    assert same(opened.model, source.load_model())


def test_a_float32_checkpoint_is_opened_too(tmp_path: Path) -> None:
    source = saved("llama", tmp_path, torch.float32)
    opened = open_model(source)
    assert opened.rows
    opened.read_rest()
    assert same(opened.model, source.load_model())


@pytest.mark.parametrize("name", ["gemma4", "t5", "whisper"])
def test_drawn_weights_depend_on_the_seed_only_and_none_is_left_out(name: str) -> None:
    config = build(name).config
    spec = ModelSpec.from_config(config)
    made = []
    for seed in (3, 3, 4):
        drawn = of_random(config, spec, seed)
        drawn.read_rest()
        made.append(drawn.model)
    assert same(made[0], made[1])
    assert not same(made[0], made[2])
    assert not any(value.is_meta for value in values(made[0]).values())
    assert all(value.isfinite().all() for value in values(made[0]).values() if value.is_floating_point())
