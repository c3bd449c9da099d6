"""Greedy decoding of real decoder-only models: who takes part, on what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from tests.benchmarks.harness.bandwidth import PROBE
from tests.benchmarks.harness.bundles import (
    ONNX_VARIANTS,
    VARIANTS,
    BundleShelf,
    Variant,
    cache_elements,
    recipe_sha256,
)
from tests.benchmarks.harness.checkpoints import dense_checkpoint, packaged_gguf
from tests.benchmarks.harness.contest import Conditions, contest
from tests.benchmarks.harness.job import Job
from tests.benchmarks.harness.report import Report
from tests.benchmarks.harness.rivals import OURS, REFERENCE, Entry, Rival
from tests.benchmarks.harness.settings import Settings

PROMPT = "The lighthouse keeper had not seen another ship for forty days when, on a morning of thick fog,"
NEW_TOKENS = 64


@dataclass(frozen=True)
class Workload:
    """A model, its rows of equal prompt length, and the capacity of every fixed cache.

    export  options of our bundle, which serves any smaller batch too
    """

    model: str
    rows: int
    capacity: int
    export: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.model}-batch-{self.rows}"


_GEMMA = ("--max-batch", "1", "--max-dec", "2048", "--max-draft", "7", "--prefill-chunk", "64")
_SMOLLM = ("--max-batch", "4", "--max-dec", "512")
WORKLOADS = (
    Workload("gemma3", 1, 2048, _GEMMA),
    Workload("smollm2", 1, 512, _SMOLLM),
    Workload("smollm2", 4, 512, _SMOLLM),
)
RIVALS = (
    Rival("eager compiled", "fp32", "decode.eager_compiled"),
    Rival("transformers.exporters", "fp32", "decode.transformers_exporters"),
    Rival("llama.cpp", "F32", "decode.llama_cpp", "llama-cpp"),
    Rival("llama.cpp", "Q8_0", "decode.llama_cpp", "llama-cpp", exact=False),
    Rival("llama.cpp", "Q4_0", "decode.llama_cpp", "llama-cpp", exact=False),
    Rival("llama.cpp", "as packaged", "decode.llama_cpp", "llama-cpp", exact=False),
    Rival("ONNX Runtime GenAI", "fp32", "decode.onnxruntime_genai", "onnxruntime-genai"),
    Rival("ONNX Runtime GenAI", "int4", "decode.onnxruntime_genai", "onnxruntime-genai", exact=False),
)


def run(settings: Settings) -> list[str]:
    """Every workload in turn; the faults found."""
    report = Report("decode")
    for workload in WORKLOADS:
        if settings.wants(workload.name):
            settings.console.print(f"decode, {workload.name}", highlight=False)
            report.rows += contest(_entries(workload, settings, report), _conditions(workload, settings))
            settings.save(report)
    return settings.publish(report)


def _conditions(workload: Workload, settings: Settings) -> Conditions:
    return Conditions(f"decode-{workload.name}", settings.rounds, settings.work / "logs", settings.console)


def _entries(workload: Workload, settings: Settings, report: Report) -> list[Entry]:
    """Eager, our variants, the read probe, and at batch 1 all others."""
    checkpoint = dense_checkpoint(workload.model, settings.work)
    shelf = BundleShelf(settings.work / "bundles", settings.reuse)
    prompts = prompt_rows(checkpoint, workload.rows)
    plain = Job(
        variant="fp32",
        model=str(checkpoint),
        checkpoint=str(checkpoint),
        work=str(settings.work),
        threads=settings.threads,
        prompts=prompts,
        new_tokens=NEW_TOKENS,
        capacity=workload.capacity,
    )

    def ours(variant: Variant) -> Callable[[], Job]:
        def prepare() -> Job:
            options = (*workload.export, *variant.options)
            model = str(packaged_gguf(workload.model, settings.work))
            bundle = shelf.bundle(f"{workload.model}-{variant.name}", model, options)
            report.recipes[f"{workload.model} {variant.name}"] = recipe_sha256(bundle.manifest)
            live = len(prompts[0]) + NEW_TOKENS / 2
            report.cache_elements[f"decode-{workload.name}"] = cache_elements(bundle.manifest, live)
            return replace(plain, variant=variant.name, model=str(bundle.root))

        return prepare

    def theirs(rival: Rival) -> Callable[[], Job]:
        def prepare() -> Job:
            gguf = str(packaged_gguf(workload.model, settings.work))
            model = gguf if rival.environment == "llama-cpp" else str(checkpoint)
            return replace(plain, variant=rival.variant, model=model)

        return prepare

    entries = [Entry(Rival(REFERENCE, "fp32", "decode.eager"), lambda: plain)]
    for variant in (*VARIANTS, *ONNX_VARIANTS):
        rival = Rival(OURS, variant.name, "decode.ours", exact=variant.exact)
        entries.append(Entry(rival, ours(variant)))
    if workload.rows == 1:
        entries += [Entry(rival, theirs(rival)) for rival in RIVALS]
    return [*entries, Entry(PROBE, lambda: plain)]


def prompt_rows(checkpoint: Path, rows: int) -> list[list[int]]:
    """Rows of equal length that differ in their last token, so that eager needs no padding."""
    from transformers import AutoTokenizer

    ids = AutoTokenizer.from_pretrained(checkpoint)(PROMPT).input_ids
    return [[*ids[:-1], ids[-1 - row]] for row in range(rows)]
