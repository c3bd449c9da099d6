"""Named recipes: complete, about one model each, within the memory of the devices that they are for."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from itertools import pairwise

import pytest
from transformers import AutoConfig

from exporter.named_recipes import chosen_recipe, said_of
from exporter.planned import plan_export
from exporter.recipe_plans import DevicePlan, RecipePlans, planned_recipe
from exporter.spec.assistant import AssistantSpec
from exporter.spec.deployment import DEVICE_NAMES, DeviceName
from exporter.spec.faults import PlanError, RecipeError
from exporter.spec.model_spec import ModelSpec
from exporter.spec.recipe import Recipe
from recipes.devices import DEVICES
from recipes.geometries.index import ASSISTANTS, GEOMETRIES, HUB_IDS
from recipes.index import RECIPES
from runtime_shims.native import operator_library_path

TOO_LARGE = {("gemma-4-e2b", "board")}
"""What no form of the weights makes small enough; the list of recipes says so with the number."""
OURS = pytest.mark.skipif(operator_library_path() is None, reason="the C++ operator library is not installed")


@pytest.fixture(scope="module")
def plans() -> dict[str, RecipePlans]:
    return {name: planned_recipe(name) for name in RECIPES}


def on(plans: RecipePlans, device: DeviceName) -> DevicePlan:
    (planned,) = (planned for planned in plans.on_devices if planned.device.name == device)
    return planned


def test_every_recipe_fits_the_memory_of_its_devices_but_those_known_not_to(plans: dict[str, RecipePlans]) -> None:
    too_large = {
        (name, planned.device.name) for name in RECIPES for planned in plans[name].on_devices if not planned.fits
    }
    assert too_large == TOO_LARGE


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_is_about_the_model_of_its_name_and_leaves_no_size_open(
    name: str, plans: dict[str, RecipePlans]
) -> None:
    for recipe in map(RECIPES[name]().on, (None, *DEVICE_NAMES)):
        assert recipe.model == HUB_IDS[name]
        assert recipe.backends == ("xnnpack",)
        assert None not in (recipe.max_dec, recipe.max_draft, recipe.prefill_chunk)
        assert (recipe.max_enc is None) == (plans[name].kind == "decoder_only")


@pytest.mark.parametrize("name", RECIPES)
def test_the_recipe_for_no_device_fits_its_model(name: str) -> None:
    recipe = RECIPES[name]().anywhere
    spec = ModelSpec.from_config(AutoConfig.for_model(**GEOMETRIES[name]()))
    assert recipe.resolve(spec).max_dec == recipe.max_dec


@pytest.mark.parametrize("name", RECIPES)
def test_a_smaller_device_is_never_asked_for_more(name: str, plans: dict[str, RecipePlans]) -> None:
    board, phone, laptop = (on(plans[name], device) for device in ("board", "phone", "laptop"))
    assert board.total_bytes <= phone.total_bytes <= laptop.total_bytes
    limits = [(one.plan.max_batch, one.plan.max_enc or 0, one.plan.recipe.max_dec) for one in (board, phone, laptop)]
    assert all(small <= large for pair in pairwise(limits) for small, large in zip(*pair, strict=True))


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_says_in_one_sentence_what_it_is_for(name: str, plans: dict[str, RecipePlans]) -> None:
    assert plans[name].purpose.endswith(".")
    assert len(plans[name].purpose) <= 52, "it stands in a table"
    assert RECIPES[name]() == RECIPES[name]()


@OURS
@pytest.mark.parametrize(
    ("name", "device"), [("t5-small", "phone"), ("gemma-4-e2b", "phone"), ("smollm2-135m", "laptop")]
)
def test_the_memory_that_is_listed_is_that_of_the_export(
    name: str, device: DeviceName, plans: dict[str, RecipePlans]
) -> None:
    recipe = replace(chosen_recipe(name, device, {}).recipe, random_weights=True)
    exported = plan_export(recipe, max_memory_bytes=DEVICES[device].memory_bytes)
    draft = 0 if exported.draft_plan is None else exported.draft_plan.total_bytes
    assert on(plans[name], device).total_bytes == exported.plan.total_bytes + draft


@OURS
def test_what_does_not_fit_a_device_is_refused_with_the_numbers() -> None:
    chosen = chosen_recipe("gemma-4-e2b", "board", {"random_weights": True})
    numbers = r"it needs 3\.0 GB \(weights 2\.9 GB.*more than --max-memory 2\.0 GB"
    with pytest.raises(PlanError, match=numbers) as refused, said_of(chosen):
        plan_export(chosen.recipe, max_memory_bytes=chosen.memory_bytes)
    assert str(refused.value).startswith("recipe gemma-4-e2b for a board, ")
    assert str(refused.value).endswith("give an option to replace what the recipe chose")


def test_a_draft_counts_in_the_memory(plans: dict[str, RecipePlans]) -> None:
    with_assistant = on(plans["gemma-4-e2b"], "laptop").plan
    assert with_assistant.assistant is not None
    assert plans["gemma-4-e2b"].parameter_count == 4_628_569_344 + with_assistant.assistant.weights.parameter_count


def test_the_assistants_geometry_has_the_published_size() -> None:
    target = ModelSpec.from_config(AutoConfig.for_model(**GEOMETRIES["gemma-4-e2b"]()))
    assistant = AssistantSpec.from_config(AutoConfig.for_model(**ASSISTANTS["gemma-4-e2b-assistant"]()), target)
    assert assistant.weights.parameter_count == 77_731_328, "published as 78 M"
    assert assistant.donors == {"sliding_attention": 13, "full_attention": 14}


def test_options_replace_single_values_of_a_recipe() -> None:
    phone = RECIPES["llama-3.2-1b"]().phone
    assert chosen_recipe("llama-3.2-1b", "phone", {"max_dec": 512}).recipe == replace(phone, max_dec=512)
    assert chosen_recipe("llama-3.2-1b", "phone", {"model": "./mine"}).recipe == replace(phone, model="./mine")
    assert chosen_recipe("llama-3.2-1b", None, {}).recipe == RECIPES["llama-3.2-1b"]().anywhere


def test_another_form_of_the_weights_leaves_behind_what_belonged_to_the_old_one() -> None:
    phone = RECIPES["gemma-4-e2b"]().phone
    assert phone.embedding_bits == 4
    plain = chosen_recipe("gemma-4-e2b", "phone", {"quantize": "none"}).recipe
    assert plain == replace(phone, quantize="none", embedding_bits=None)
    asked = chosen_recipe("gemma-4-e2b", "phone", {"quantize": "8da8w", "embedding_bits": 4}).recipe
    assert asked == replace(phone, quantize="8da8w")


def test_the_draft_of_a_recipe_can_be_left_out() -> None:
    phone = RECIPES["gemma-4-e2b"]().phone
    assert phone.draft == "mtp"
    assert chosen_recipe("gemma-4-e2b", "phone", {"draft": "none"}).recipe == replace(phone, draft=None)
    assert chosen_recipe(None, None, {"model": "m", "draft": "none"}).recipe == Recipe("m")


def test_what_does_not_go_with_a_value_of_the_recipe_is_said_to_be_its_own() -> None:
    with pytest.raises(RecipeError) as refused:
        chosen_recipe("smollm2-135m", "phone", {"backends": ("onnx",)})
    line = "recipe smollm2-135m for a phone: --quantize int8-weights-kv is not available with --backend onnx; "
    assert str(refused.value) == f"{line}use 8da8w, or leave it out; give an option to replace what the recipe chose"
    assert chosen_recipe("smollm2-135m", "phone", {"backends": ("onnx",), "quantize": "8da8w"})


@pytest.mark.parametrize(
    ("name", "device", "model", "fault"),
    [
        ("whisper-tinny.en", None, None, "whisper-tinny.en is unknown; did you mean whisper-tiny.en or whisper-"),
        ("openai/whisper-tiny.en", None, None, "is unknown; did you mean whisper-tiny.en? --list-recipes shows all"),
        ("zzz", "phone", None, "--recipe zzz is unknown; --list-recipes shows all"),
        ("t5-small", "cpu", None, "--device cpu is unknown; available: phone, board, laptop (what the bundle is meant"),
        (None, "phone", None, "--device phone chooses among the values of a named recipe; add --recipe NAME (--list-"),
        (None, "phone", "google-t5/t5-small", "among the values of a named recipe; add --recipe t5-small"),
        (None, None, None, "give a MODEL, or a named recipe with --recipe (see --list-recipes)"),
    ],
)
def test_an_unknown_or_missing_name_is_one_line_with_a_way_out(
    name: str | None, device: str | None, model: str | None, fault: str
) -> None:
    with pytest.raises(RecipeError) as refused:
        chosen_recipe(name, device, {} if model is None else {"model": model})
    (line,) = str(refused.value).splitlines()
    assert fault in line


def test_recipes_devices_and_geometries_need_neither_torch_nor_transformers() -> None:
    code = (
        "import recipes.devices, recipes.index, recipes.geometries.index, sys;"
        "[make() for table in (recipes.index.RECIPES, recipes.geometries.index.GEOMETRIES)"
        " for make in table.values()];"
        "sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
