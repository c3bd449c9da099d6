"""What quantization costs in quality: our formats and llama.cpp's against eager fp32, on fixed texts; Whisper's words.

Next-token distributions are compared at every position of every text: mean Kullback-Leibler divergence from fp32, in
nats, and the share of positions where the most likely token is the same. Nothing is timed.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from rich.table import Table

from tests.benchmarks.harness.bundles import VARIANTS, BundleShelf, Variant
from tests.benchmarks.harness.checkpoints import dense_checkpoint, packaged_gguf
from tests.benchmarks.harness.conditions import conditions
from tests.benchmarks.harness.environments import OWN, python_of
from tests.benchmarks.harness.job import Job, Unavailable, job_text, one_line
from tests.benchmarks.harness.process import REPOSITORY, rival_variables
from tests.benchmarks.harness.rivals import OURS
from tests.benchmarks.harness.settings import Settings
from tests.benchmarks.quality import speech
from tests.benchmarks.quality.texts import TEXTS

MODELS = ("gemma3", "smollm2")
FOUR_BIT_HEAD = Variant("8da4w, 4-bit embedding", ("--quantize", "8da4w", "--embedding-bits", "4"), exact=False)
EIGHT_BIT_CACHES = Variant("int8-weights-kv", ("--quantize", "int8-weights-kv"), exact=False)
OUR_VARIANTS = (*VARIANTS, FOUR_BIT_HEAD, EIGHT_BIT_CACHES)
LLAMA_FORMATS = ("Q8_0", "Q4_0")


@dataclass(frozen=True)
class Quality:
    """One row: `megabytes` of the weights' file, divergence in nats, agreement in 0..1; or why there is none."""

    model: str
    rival: str
    variant: str
    megabytes: float = 0.0
    divergence: float | None = None
    agreement: float | None = None
    note: str = ""


def run(settings: Settings) -> list[str]:
    """Every model in turn, then speech; the faults found."""
    settings.results.mkdir(parents=True, exist_ok=True)
    rows: list[Quality] = []
    for model in MODELS:
        if settings.wants(model):
            settings.console.print(f"quality, {model}", highlight=False)
            rows += _of_model(model, settings)
            settings.console.print(table(rows), "")
            _save(rows, [], settings)
    words = speech.run(settings) if settings.wants("whisper") else []
    settings.console.print(speech.table(words), "", f"written: {_save(rows, words, settings)}")
    return []


def _save(rows: list[Quality], words: list[speech.Words], settings: Settings) -> Path:
    """Write what is known so far."""
    report = {"rows": [asdict(row) for row in rows], "words": [asdict(row) for row in words]}
    target = settings.results / "quality.json"
    target.write_text(json.dumps(report | {"conditions": conditions(settings.threads, 1)}, indent=1) + "\n")
    return target


def _of_model(model: str, settings: Settings) -> list[Quality]:
    from transformers import AutoTokenizer

    checkpoint = dense_checkpoint(model, settings.work)
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    folder = settings.work / "logits"
    folder.mkdir(parents=True, exist_ok=True)
    plain = Job(
        variant="fp32",
        model=str(checkpoint),
        checkpoint=str(checkpoint),
        work=str(settings.work),
        threads=settings.threads,
        prompts=[tokenizer(text).input_ids for text in TEXTS],
        audio=str(folder / f"{model}-fp32.npy"),
        capacity=512,
    )
    _write(plain, "eager", OWN, folder)
    found = [_ours(plain, model, variant, settings) for variant in OUR_VARIANTS]
    return found + [_llama(plain, model, variant, settings) for variant in LLAMA_FORMATS]


def _ours(plain: Job, model: str, variant: Variant, settings: Settings) -> Quality:
    row = Quality(model, OURS, variant.name)
    shelf = BundleShelf(settings.work / "bundles", settings.reuse)
    gguf = str(packaged_gguf(model, settings.work))
    try:
        name = f"{model}-quality-{variant.name.replace(' ', '-').replace(',', '')}"
        bundle = shelf.bundle(name, gguf, ("--max-dec", "512", *variant.options))
        size = bundle.file(bundle.manifest.programs[0].file).stat().st_size
        return _judged(row, replace(plain, variant=variant.name, model=str(bundle.root)), "ours", OWN, size)
    except Unavailable as error:
        return replace(row, note=one_line(error))


def _llama(plain: Job, model: str, variant: str, settings: Settings) -> Quality:
    row = Quality(model, "llama.cpp", variant)
    gguf = packaged_gguf(model, settings.work)
    try:
        row = _judged(row, replace(plain, variant=variant, model=str(gguf)), "llama_cpp", "llama-cpp", 0)
        made = sorted(settings.work.glob(f"{gguf.name.partition('.')[0]}*-{variant}.gguf"))
        return replace(row, megabytes=made[0].stat().st_size / 1e6 if made else 0.0)
    except Unavailable as error:
        return replace(row, note=one_line(error))


def _judged(row: Quality, job: Job, module: str, environment: str, size: int) -> Quality:
    """The row with its numbers; the file of its logits is removed again (half a gigabyte for Gemma)."""
    reference = Path(job.audio)
    found = reference.with_name(f"{row.model}-{module}.npy")
    _write(replace(job, audio=str(found)), module, environment, reference.parent)
    divergence, agreement = compare(np.load(reference, mmap_mode="r"), np.load(found, mmap_mode="r"))
    found.unlink()
    return replace(row, megabytes=size / 1e6, divergence=divergence, agreement=agreement)


def _write(job: Job, module: str, environment: str, folder: Path) -> None:
    """Run one rival. Raises Unavailable with the last line that it said."""
    command = [str(python_of(environment)), "-m", f"tests.benchmarks.quality.{module}", job_text(job)]
    log = folder / f"{module}-{job.variant.replace(' ', '-')}.log"
    with log.open("w") as file:
        done = subprocess.run(
            command, stdout=file, stderr=file, check=False, cwd=REPOSITORY, env=rival_variables(job.threads)
        )
    if done.returncode:
        lines = [line for line in log.read_text().splitlines() if line.strip()]
        raise Unavailable(lines[-1] if lines else f"{module} ended with {done.returncode}")


def compare(reference_TV: np.ndarray, other_TV: np.ndarray) -> tuple[float, float]:
    """Mean KL divergence in nats from the reference's distributions, and the share of equal best tokens."""
    divergences, equal = [], []
    for expected_V, found_V in zip(reference_TV, other_TV, strict=True):
        expected, found = log_softmax(expected_V), log_softmax(found_V)
        divergences.append(float((np.exp(expected) * (expected - found)).sum()))
        equal.append(int(expected_V.argmax()) == int(found_V.argmax()))
    return float(np.mean(divergences)), float(np.mean(equal))


def log_softmax(logits_V: np.ndarray) -> np.ndarray:
    """Logarithms of probabilities, in double precision."""
    shifted = logits_V.astype(np.float64) - float(logits_V.max())
    return shifted - np.log(np.exp(shifted).sum())


def table(rows: list[Quality]) -> Table:
    """One line per model and format."""
    out = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("model", "rival", "format"):
        out.add_column(title, no_wrap=True)
    for title in ("file MB", "KL, nats", "same best token"):
        out.add_column(title, justify="right")
    for row in rows:
        numbers = ("", row.note, "")
        if row.divergence is not None and row.agreement is not None:
            numbers = (f"{row.megabytes:.0f}", f"{row.divergence:.4f}", f"{100 * row.agreement:.1f} %")
        out.add_row(row.model, row.rival, row.variant, *numbers)
    return out
