"""Whisper tiny.en's words: word error rate of every format on the packaged recordings, against what is read there."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import jiwer
from rich.table import Table

from tests.benchmarks.harness.bundles import VARIANTS, BundleShelf
from tests.benchmarks.harness.job import Unavailable, one_line
from tests.benchmarks.harness.process import OFFLINE
from tests.benchmarks.harness.settings import Settings
from tests.real.exports import script
from tests.support.real import real_weights

# What is read in the first 20 seconds: a line of Samuel Beckett's "Worstward Ho" (1983), and the beginning of Charles
# Dickens's "A Tale of Two Cities" (1859) up to where the window cuts it.
SPOKEN = (
    "Ever tried. Ever failed. No matter. Try again. Fail again. Fail better.",
    "It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of foolishness, it "
    "was the epoch of belief, it was the epoch of incredulity, it was the season of Light, it was the season of "
    "Darkness, it was the spring of hope, it was the winter of",
)
SECONDS = "20"
_WORDS = jiwer.Compose(
    [
        jiwer.ToLowerCase(),
        jiwer.RemovePunctuation(),
        jiwer.RemoveMultipleSpaces(),
        jiwer.Strip(),
        jiwer.ReduceToListOfListOfWords(),
    ]
)


@dataclass(frozen=True)
class Words:
    """Word error rate of one format over both recordings, as a share; or why there is none."""

    variant: str
    error_rate: float | None = None
    heard: tuple[str, ...] = ()
    note: str = ""


def run(settings: Settings) -> list[Words]:
    """Every format of ours."""
    checkpoint = real_weights().whisper_tiny_en_checkpoint(settings.work)
    shelf = BundleShelf(settings.work / "bundles", settings.reuse)
    rows = []
    for variant in VARIANTS:
        settings.console.print(f"quality, whisper {variant.name}", highlight=False)
        try:
            bundle = shelf.bundle(f"whisper-{variant.name}", str(checkpoint), ("--max-batch", "2", *variant.options))
            heard = tuple(transcribe(bundle.root, number) for number in range(len(SPOKEN)))
            rows.append(Words(variant.name, error_rate(heard), heard))
        except Unavailable as error:
            rows.append(Words(variant.name, note=one_line(error)))
    return rows


def transcribe(bundle: Path, recording: int) -> str:
    """What `run-model` hears in the first seconds of a recording."""
    sound = real_weights().speech_wavs()[recording]
    heard = ("--audio", str(sound), "--audio-seconds", SECONDS, "--json")
    command = [script("run-model"), "generate", str(bundle), *heard]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | OFFLINE)
    if done.returncode:
        raise Unavailable(done.stderr.strip().splitlines()[-1])
    return json.loads(done.stdout)["generations"][0]["text"].strip()


def error_rate(heard: tuple[str, ...]) -> float:
    """Substituted, missing and added words by words spoken."""
    return jiwer.wer(list(SPOKEN), list(heard), reference_transform=_WORDS, hypothesis_transform=_WORDS)


def table(rows: list[Words]) -> Table:
    """One line per format."""
    out = Table(box=None, pad_edge=False, header_style="bold")
    out.add_column("Whisper tiny.en")
    out.add_column("word error rate", justify="right")
    for row in rows:
        out.add_row(row.variant, row.note if row.error_rate is None else f"{100 * row.error_rate:.1f} %")
    return out
