"""bundle-runner for 64-bit Arm, under QEMU: the tokens of this machine's runner from the same bundles.

Tokens are chosen from logits whose last bits differ between processors: kernels sum in the order of their vectors.
In float32 that decides a draw once in millions. With activations of 8 bits a last bit moves some values by a whole
step (at temperature 1.5 one row in fifty was drawn differently), so there tokens are drawn at a temperature at which
the trained T5 is still sure of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from exporter.pipeline import export_bundle
from exporter.spec.recipe import Recipe
from tests.runner.runner import Runner
from tests.support.small_t5 import LONGEST, SMALL_T5, load, strings

pytestmark = pytest.mark.arm64

BUILT = Path(__file__).parents[2] / "build" / "arm64"
KERNELS = {"max": "arm+dotprod", "cortex-a53": "baseline"}
"""QEMU's name of a processor, and the kernels for it: with dot products and without."""
FORMATS = {"float32": {}, "float16": {"dtype": "float16"}, "8da8w": {"quantize": "8da8w"}}
TEMPERATURES = {"float32": 3.0, "float16": 3.0, "8da8w": 1.0}
DRAWS = ("--top-k", "20", "--seed", "12")
MODES = {"plain": (), "prompt-lookup": ("--speculate", "prompt-lookup")}
ROWS = [[5, 9, 12, 7, 30, 5, 9], [11], [3, 40, 41, 42, 3, 40, 41, 42, 17], [8, 8, 8]]


def qemu(cpu: str, *options: object) -> tuple[str, ...]:
    return ("qemu-aarch64", "-cpu", cpu, "-L", "/usr/aarch64-linux-gnu", *map(str, options))


def arm64_runner(cpu: str, *options: object) -> Runner:
    return Runner((*qemu(cpu, *options), str(BUILT / "runtime_shims" / "cpp" / "bundle-runner")))


def same_everywhere(bundle: Path, rows: list[list[int]], *arguments: object) -> dict[str, Any]:
    """This machine's answer, once every Arm processor has given the same."""
    wanted = Runner().answer(bundle, rows, *arguments)
    for cpu in KERNELS:
        found = arm64_runner(cpu).answer(bundle, rows, *arguments)
        assert found["generations"] == wanted["generations"], cpu
        for count in ("rounds", "proposed", "accepted_lengths", "corrections", "bonuses", "emitted"):
            assert found["stats"]["speculation"][count] == wanted["stats"]["speculation"][count], (cpu, count)
    return wanted


@pytest.fixture(scope="module", params=FORMATS)
def t5(request: pytest.FixtureRequest, shelf: Path) -> tuple[str, Path]:
    """The small T5 in one format."""
    bundle = shelf / f"arm64-t5-{request.param}.bundle"
    recipe = Recipe(
        str(SMALL_T5), max_batch=8, max_enc=LONGEST + 1, max_dec=LONGEST + 8, max_draft=4, prefill_chunk=2,
        attention="fused", **FORMATS[request.param],
    )  # fmt: skip
    export_bundle(recipe, bundle)
    return request.param, bundle


@pytest.mark.parametrize("mode", MODES)
def test_the_trained_t5_answers_as_on_this_machine(t5: tuple[str, Path], mode: str) -> None:
    name, bundle = t5
    tokenizer, texts = load()[1], strings(8, seed=21)
    rows, reverses = [tokenizer(text).input_ids for text in texts], [text[::-1] for text in texts]
    greedy = same_everywhere(bundle, rows, *MODES[mode])
    assert sum(row["text"] == text for row, text in zip(greedy["generations"], reverses, strict=True)) >= 7
    drawn = same_everywhere(bundle, rows, *MODES[mode], *DRAWS, "--temperature", TEMPERATURES[name])
    assert (drawn["generations"] == greedy["generations"]) == (name == "8da8w")


@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("mode", MODES)
def test_ragged_rows_through_wrapping_windows_answer_as_on_this_machine(
    gemma3: Path, mode: str, temperature: float
) -> None:
    draws = (*DRAWS, "--temperature", temperature) if temperature else ()
    answer = same_everywhere(gemma3, ROWS, "--max-new-tokens", "80", *MODES[mode], *draws)
    assert [len(row["tokens"]) for row in answer["generations"]] == [80] * 4
    assert (answer["stats"]["speculation"]["accepted"] > 0) == (mode == "prompt-lookup")


def test_another_seed_draws_other_tokens(gemma3: Path) -> None:
    """The control of all comparisons above."""
    draws = ("--temperature", "0.9", *DRAWS)
    wanted = Runner().tokens(gemma3, ROWS, *draws)
    assert arm64_runner("max").tokens(gemma3, ROWS, *draws) == wanted
    assert arm64_runner("max").tokens(gemma3, ROWS, *draws, "--seed", "13") != wanted


@pytest.mark.parametrize(("cpu", "kernels"), KERNELS.items())
def test_the_kernels_that_the_processor_allows_are_the_ones_that_run(
    t5: tuple[str, Path], tmp_path: Path, cpu: str, kernels: str
) -> None:
    assert arm64_runner(cpu).run("--version").out.strip().endswith(f"kernels {kernels}")
    log = tmp_path / "executed.txt"
    ended = arm64_runner(cpu, "-d", "in_asm", "-D", log).run("--bundle", t5[1], "--ids", "5,9,12,1", "--threads", "1")
    assert (ended.code, ended.err) == (0, "")
    executed = {line.removeprefix("IN: ").strip() for line in log.read_text("utf-8", "replace").splitlines()}
    namespaces = {"arm+dotprod": "arm_dotprod", "baseline": "baseline"}
    for variant, namespace in namespaces.items():
        name = f"{len(namespace)}{namespace}10run_linear"
        assert any(name in symbol for symbol in executed) == (variant == kernels), variant


def test_the_operators_are_right_without_dot_products() -> None:
    """Every C++ test of the operators again; CTest has run them with dot products."""
    tests = str(BUILT / "tests" / "cpp" / "fixed_capacity_tests")
    ended = Runner((*qemu("cortex-a53"), tests)).run()
    assert ended.code == 0, ended.out
