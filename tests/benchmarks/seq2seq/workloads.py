"""Encoder-decoder with T5-small's geometry and seeded weights: who takes part, on what.

End of sequence is suppressed everywhere, so that every row of every rival decodes the same number of tokens.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.benchmarks.harness.bandwidth import PROBE
from tests.benchmarks.harness.bundles import ONNX_VARIANTS, VARIANTS, BundleShelf, Variant, recipe_sha256
from tests.benchmarks.harness.checkpoints import t5_checkpoint
from tests.benchmarks.harness.contest import Conditions, contest
from tests.benchmarks.harness.job import Job
from tests.benchmarks.harness.report import Report
from tests.benchmarks.harness.rivals import OURS, REFERENCE, Entry, Rival
from tests.benchmarks.harness.settings import Settings

NEW_TOKENS = 32
MAX_DEC = 64
EXPORT = ("--max-batch", "8", "--max-enc", "512", "--max-dec", str(MAX_DEC))
SEED = 0


@dataclass(frozen=True)
class Shape:
    """Rows at once and tokens of each source; one bundle serves all shapes."""

    rows: int
    source: int

    @property
    def name(self) -> str:
        return f"t5-small-batch-{self.rows}-source-{self.source}"

    def sources(self) -> list[list[int]]:
        """Random ordinary tokens, the same in every run."""
        numbers = random.Random(SEED)
        return [[numbers.randrange(3, 32_000) for _ in range(self.source)] for _ in range(self.rows)]


SHAPES = tuple(Shape(rows, source) for source in (32, 512) for rows in (1, 8))
RIVALS = (
    Rival("transformers.exporters", "fp32", "seq2seq.transformers_exporters"),
    Rival("optimum-onnx", "fp32", "seq2seq.optimum_onnx", "optimum-onnx"),
    Rival("CTranslate2", "float32", "seq2seq.ctranslate2_translator", "ctranslate2"),
    Rival("CTranslate2", "int8", "seq2seq.ctranslate2_translator", "ctranslate2", exact=False),
)


def run(settings: Settings) -> list[str]:
    """Every shape in turn; the faults found."""
    report = Report("seq2seq")
    checkpoint = str(t5_checkpoint(settings.work))
    shelf = BundleShelf(settings.work / "bundles", settings.reuse)
    for shape in SHAPES:
        if not settings.wants(shape.name):
            continue
        settings.console.print(f"seq2seq, {shape.name}", highlight=False)
        plain = Job(
            variant="fp32",
            model=checkpoint,
            checkpoint=checkpoint,
            work=str(settings.work),
            threads=settings.threads,
            prompts=shape.sources(),
            new_tokens=NEW_TOKENS,
            capacity=MAX_DEC,
        )
        logs = settings.work / "logs"
        conditions = Conditions(f"seq2seq-{shape.name}", settings.rounds, logs, settings.console, follows=False)
        report.rows += contest(_entries(plain, shelf, report), conditions)
        settings.save(report)
    return settings.publish(report)


def _entries(plain: Job, shelf: BundleShelf, report: Report) -> list[Entry]:
    def ours(variant: Variant) -> Callable[[], Job]:
        def prepare() -> Job:
            bundle = shelf.bundle(f"t5-small-{variant.name}", plain.checkpoint, (*EXPORT, *variant.options))
            report.recipes[f"t5-small {variant.name}"] = recipe_sha256(bundle.manifest)
            return replace(plain, variant=variant.name, model=str(bundle.root))

        return prepare

    def theirs(rival: Rival) -> Callable[[], Job]:
        return lambda: replace(plain, variant=rival.variant)

    entries = [Entry(Rival(REFERENCE, "fp32", "seq2seq.eager"), lambda: plain)]
    for variant in (*VARIANTS, *ONNX_VARIANTS):
        entries.append(Entry(Rival(OURS, variant.name, "seq2seq.ours", exact=variant.exact), ours(variant)))
    entries += [Entry(rival, theirs(rival)) for rival in RIVALS]
    return [*entries, Entry(PROBE, lambda: plain)]
