"""A bundle as a model of transformers: its settings, pipelines over it, copies of it and its card."""

from __future__ import annotations

import copy
import pickle
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from huggingface_hub import ModelCard, constants
from processes import listing
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, LogitsProcessorList, TopKLogitsWarper
from transformers import pipeline as stock_pipeline
from transformers.generation.logits_process import SuppressTokensAtBeginLogitsProcessor, SuppressTokensLogitsProcessor
from transformers.generation.streamers import BaseStreamer

from exporter.bundle.model_configs import greedy_settings
from exporter.hf import FixedCapacityModelForCausalLM, pipeline
from exporter.hf_models.model_card import model_card
from exporter.hf_models.processors import quick
from exporter.spec.faults import ExportFailed
from runtime_shims.contract.bundle_reader import read_bundle
from runtime_shims.contract.errors import BundleCorrupt, UnsupportedSetting, UserInputError
from tests.support.hub_server import COMMIT, Hub, hub_server

PROMPT = torch.tensor([[5, 6, 7]])


@pytest.fixture(scope="module")
def model(llama_bundle: Path) -> FixedCapacityModelForCausalLM:
    return FixedCapacityModelForCausalLM.from_pretrained(llama_bundle)


def test_the_bundle_carries_config_and_settings_of_its_checkpoint(
    model: FixedCapacityModelForCausalLM, llama_checkpoint: Path
) -> None:
    stock = AutoModelForCausalLM.from_pretrained(llama_checkpoint)
    read_from = {"_name_or_path", "dtype"}
    ours, wanted = ({**one.config.to_dict(), **dict.fromkeys(read_from)} for one in (model, stock))
    assert ours == wanted
    assert model.generation_config.eos_token_id == stock.generation_config.eos_token_id
    assert (model.generation_config.do_sample, model.generation_config.num_beams) == (False, 1)
    roles = {entry.path: entry.role for entry in model.manifest.files}
    assert roles["config.json"] == roles["generation_config.json"] == "config"


def test_settings_of_draws_and_beams_are_not_carried_over() -> None:
    asked = GenerationConfig(do_sample=True, temperature=0.6, top_k=5, num_beams=4, repetition_penalty=1.2)
    kept = greedy_settings(asked).to_diff_dict()
    assert {name: value for name, value in kept.items() if name != "transformers_version"} == {
        "do_sample": False,
        "num_beams": 1,
    }


def test_the_text_generation_pipeline_says_what_the_stock_one_says(
    model: FixedCapacityModelForCausalLM, llama_checkpoint: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stock = AutoModelForCausalLM.from_pretrained(llama_checkpoint)
    tokenizer = AutoTokenizer.from_pretrained(llama_checkpoint)
    wanted = stock_pipeline("text-generation", stock, tokenizer=tokenizer, device="cpu")
    texts, options = ["abc", "hello you"], {"max_new_tokens": 12, "do_sample": False}
    assert pipeline("text-generation", model)(texts, **options) == wanted(texts, **options)
    assert "not supported" not in caplog.text


def test_stop_strings_end_rows_as_in_transformers(
    model: FixedCapacityModelForCausalLM, llama_checkpoint: Path
) -> None:
    stock = AutoModelForCausalLM.from_pretrained(llama_checkpoint)
    tokenizer = AutoTokenizer.from_pretrained(llama_checkpoint)
    plain = model.generate(PROMPT, max_new_tokens=20)
    options = {"stop_strings": [tokenizer.decode(plain[0, 9:11])], "tokenizer": tokenizer, "max_new_tokens": 20}
    stopped = model.generate(PROMPT, **options)
    assert torch.equal(stopped, stock.generate(PROMPT, **options))
    assert stopped.shape[1] < plain.shape[1]


def test_without_limits_a_pipeline_takes_the_best_tokens_of_its_own_number(
    model: FixedCapacityModelForCausalLM,
) -> None:
    run = pipeline("text-generation", model)
    assert run("abc") == run("abc")  # transformers' own default draws


def test_a_copy_is_a_bundle_with_a_card_and_says_the_same(
    model: FixedCapacityModelForCausalLM, tmp_path: Path
) -> None:
    model.save_pretrained(tmp_path / "copy", license="mit")
    copy = FixedCapacityModelForCausalLM.from_pretrained(tmp_path / "copy")
    assert read_bundle(tmp_path / "copy").manifest == model.manifest
    assert torch.equal(copy.generate(PROMPT, max_new_tokens=5), model.generate(PROMPT, max_new_tokens=5))
    card = ModelCard.load(tmp_path / "copy" / "README.md")
    assert (card.data.license, card.data.pipeline_tag, card.data.base_model) == ("mit", "text-generation", None)
    copy.save_pretrained(tmp_path / "copy")  # onto itself


def test_the_card_has_the_plan_the_figures_and_the_versions(model: FixedCapacityModelForCausalLM) -> None:
    card = model_card(model.manifest)
    assert "| decoder positions | 96 |" in card
    assert "| `model.portable.pte` | portable |" in card
    assert "0.0001 of the largest" in card
    assert all(f"{package.name} {package.version}" in card for package in model.manifest.packages)
    assert "FixedCapacityModelForCausalLM.from_pretrained" in card
    assert "license" not in card


def test_a_directory_with_another_bundle_is_not_written_to(
    model: FixedCapacityModelForCausalLM, tmp_path: Path
) -> None:
    (tmp_path / "manifest.json").write_text("{}", encoding="utf-8")
    with pytest.raises(UserInputError, match="it holds another bundle"):
        model.save_pretrained(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["manifest.json"]
    with pytest.raises(UserInputError, match="it is a file"):
        model.save_pretrained(tmp_path / "manifest.json")
    with pytest.raises(ExportFailed, match=r"manifest\.json/below: it cannot be written: "):
        model.save_pretrained(tmp_path / "manifest.json" / "below")


def test_a_checkpoint_is_not_written_over(
    model: FixedCapacityModelForCausalLM, llama_checkpoint: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(llama_checkpoint, tmp_path / "checkpoint")
    with pytest.raises(UserInputError, match="it holds a checkpoint; give another directory"):
        model.save_pretrained(copy)
    assert listing(copy) == listing(llama_checkpoint)


def test_an_option_of_a_copy_that_does_not_exist_is_refused_before_anything_is_written(
    model: FixedCapacityModelForCausalLM, tmp_path: Path
) -> None:
    with pytest.raises(UserInputError, match="save_pretrained has no licence, max_shard_size; there are commit_mess"):
        model.save_pretrained(tmp_path / "copy", licence="mit", max_shard_size="2GB")
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("act", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_loaded_model_is_neither_copied_nor_pickled(
    model: FixedCapacityModelForCausalLM, act: Callable[[object], object]
) -> None:
    with pytest.raises(UnsupportedSetting, match="neither copied nor pickled; open the bundle once more"):
        act(model)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """A Hub of this machine in the place of the real one."""
    with hub_server() as hub:
        monkeypatch.setattr(constants, "ENDPOINT", hub.address)
        template = f"{hub.address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        yield hub


def test_a_pushed_bundle_runs_from_its_id(model: FixedCapacityModelForCausalLM, hub: Hub) -> None:
    address = model.push_to_hub("somebody/tiny", token="hf_none", commit_message="First")
    assert address == f"{hub.address}/somebody/tiny/commit/{COMMIT}"
    assert hub.messages == ["First"]
    files = hub.repositories["somebody/tiny"]
    assert set(files) == {entry.path for entry in model.manifest.files} | {"manifest.json", "README.md"}
    pulled = FixedCapacityModelForCausalLM.from_pretrained("somebody/tiny", token="hf_none")
    assert pulled.manifest == model.manifest
    assert torch.equal(pulled.generate(PROMPT, max_new_tokens=5), model.generate(PROMPT, max_new_tokens=5))


def test_what_the_hub_refuses_is_one_line(model: FixedCapacityModelForCausalLM, hub: Hub) -> None:
    with pytest.raises(UserInputError, match="somebody/none: there is no such directory, and the Hub gives") as absent:
        FixedCapacityModelForCausalLM.from_pretrained("somebody/none", token="hf_none")
    assert absent.value.__suppress_context__
    with pytest.raises(ExportFailed, match="no id: it cannot be pushed: ") as refused:
        model.push_to_hub("no id", token="hf_none")
    assert "\n" not in str(refused.value)
    with pytest.raises(UserInputError, match="push_to_hub has no shards; there are commit_message"):
        model.push_to_hub("somebody/tiny", shards=3)


def test_quick_suppression_is_that_of_transformers() -> None:
    banned = [3, 4, 40]
    stock = LogitsProcessorList(
        [
            SuppressTokensLogitsProcessor(banned),  # one of them is no word
            SuppressTokensAtBeginLogitsProcessor([5], begin_index=2),
            TopKLogitsWarper(4),
        ]
    )
    scores = torch.randn(2, 12, generator=torch.Generator().manual_seed(0))
    for length in (1, 2, 3):
        given = torch.zeros(2, length, dtype=torch.int64)
        assert torch.equal(quick(stock)(given, scores.clone()), stock(given, scores.clone()))
    assert bool(torch.isinf(quick(stock[:2])(torch.zeros(2, 2), scores)[:, [3, 4, 5]]).all())
    assert quick(stock)[2] is stock[2]


class Threads(BaseStreamer):
    """How many threads PyTorch has while tokens come."""

    def __init__(self) -> None:
        self.seen: set[int] = set()

    def put(self, value: torch.Tensor) -> None:
        self.seen.add(torch.get_num_threads())

    def end(self) -> None:
        """Nothing is left to say."""


def test_pytorch_leaves_the_cores_to_the_program_and_takes_them_back(model: FixedCapacityModelForCausalLM) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        threads = Threads()
        model.generate(PROMPT, max_new_tokens=2, streamer=threads)
        assert (threads.seen, torch.get_num_threads()) == ({1}, 3)
    finally:
        torch.set_num_threads(before)


def test_a_damaged_bundle_is_refused_unless_its_hashes_are_not_looked_at(llama_bundle: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(llama_bundle, tmp_path / "damaged.bundle")
    text = (copy / "golden.json").read_text("utf-8")
    (copy / "golden.json").write_text(text.replace("1", "2", 1), encoding="utf-8")
    with pytest.raises(BundleCorrupt, match=r"golden\.json has changed"):
        FixedCapacityModelForCausalLM.from_pretrained(copy)
    unchecked = FixedCapacityModelForCausalLM.from_pretrained(copy, check_hashes=False)
    assert unchecked.generate(PROMPT, max_new_tokens=1).shape == (1, 4)
