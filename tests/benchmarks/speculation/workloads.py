"""Speculation in bundle-runner on Gemma 3 270M: what it gains where text can be predicted, and costs where it cannot.

For each text, the Python runtime and bundle-runner decode plainly, then bundle-runner with `--speculate auto`: prompt
lookup, and a 4-bit copy of the model as draft. All must give the same tokens before any is timed. Then they take turns.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from rich.table import Table

from runtime_shims.contract.bundle_reader import Bundle
from tests.benchmarks.harness.bundles import BundleShelf
from tests.benchmarks.harness.checkpoints import dense_checkpoint
from tests.benchmarks.harness.conditions import conditions
from tests.benchmarks.harness.process import REPOSITORY
from tests.benchmarks.harness.ratios import paired_ratio
from tests.benchmarks.harness.settings import Settings
from tests.benchmarks.speculation.prompts import OPTIONS, PROMPTS
from tests.real.exports import script

RUNNER = REPOSITORY / "build" / "release" / "runtime_shims" / "cpp" / "bundle-runner"
NEW_TOKENS = 200
LIMITS = ("--max-dec", "1024", "--max-draft", "8")
TARGETS = {"fp32": (), "8da8w": ("--quantize", "8da8w")}
DRAFTS = {"4-bit draft with a 4-bit head": ("--quantize", "8da4w", "--embedding-bits", "4")}
"""What `export-model --draft self-int4` puts into a bundle."""
LOOKUP = "C++, auto, prompt lookup"
LEAST = {
    ("repetitive", LOOKUP): 1.5,
    ("code editing", LOOKUP): 1.5,
    ("free text", LOOKUP): 0.95,
    **{(kind, f"C++, auto, {draft}"): 1.0 for kind in ("repetitive", "code editing") for draft in DRAFTS},
    **{("free text", f"C++, auto, {draft}"): 0.95 for draft in DRAFTS},
}
"""Tokens per second against plain decoding in C++; less is a fault of this benchmark. Of fp32 targets."""
MOST_PYTHON = 1.0
"""Python's plain tokens per second against those of C++."""


@dataclass
class Mode:
    """One way to decode: a command without its prompt, and what its rounds took."""

    name: str
    command: tuple[str, ...]
    rates: list[float] = field(default_factory=list)
    stats: dict[str, Any] = field(default_factory=dict)

    def run(self, prompt: list[int], threads: int) -> list[int]:
        """Decode once; the new tokens."""
        ids = ",".join(map(str, prompt))
        options = ("--max-new-tokens", str(NEW_TOKENS), "--threads", str(threads), "--json")
        command = [*self.command, "--ids", ids, *options]
        answer = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
        self.stats = answer["stats"]
        self.rates.append(self.stats["decode_tokens_per_second"])
        return answer["generations"][0]["tokens"]


def run(settings: Settings) -> list[str]:
    """Every target with every text; the faults found."""
    if not RUNNER.is_file():
        return [f"{RUNNER.name} is not built; run `make runner` first"]
    checkpoint = str(dense_checkpoint("gemma3", settings.work))
    shelf = BundleShelf(settings.work / "bundles", settings.reuse)
    drafts = {
        name: str(shelf.bundle(f"gemma3-{name.replace(' ', '-')}", checkpoint, (*LIMITS, *options)).root)
        for name, options in DRAFTS.items()
    }
    faults: list[str] = []
    rows: list[dict[str, Any]] = []
    for target, options in TARGETS.items():
        bundle = shelf.bundle(f"gemma3-verifies-{target}", checkpoint, (*LIMITS, *options))
        for kind, prompt in _prompts(checkpoint):
            if not settings.wants(f"{target} {kind}"):
                continue
            modes = _modes(bundle, drafts, OPTIONS.get(kind, ()))
            faults += _time(f"{target}, {kind}", modes, prompt, OPTIONS.get(kind, ()), settings)
            rows += [_row(target, kind, mode, modes[1]) for mode in modes]
            if target == "fp32":
                faults += _missed(kind, modes)
    settings.console.print(_table(rows))
    report = {"rows": rows, "conditions": conditions(settings.threads, settings.rounds)}
    settings.results.mkdir(parents=True, exist_ok=True)
    (settings.results / "speculation.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return faults


def _prompts(checkpoint: str) -> Iterator[tuple[str, list[int]]]:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    for kind, text in PROMPTS.items():
        yield kind, tokenizer(text).input_ids


def _modes(bundle: Bundle, drafts: dict[str, str], options: tuple[str, ...]) -> list[Mode]:
    root = str(bundle.root)
    cpp = (str(RUNNER), "--bundle", root, "--no-verify", *options)
    return [
        Mode("Python, plain", (script("run-model"), "generate", root, "--no-verify", *options)),
        Mode("C++, plain", cpp),
        Mode(LOOKUP, (*cpp, "--speculate", "auto")),
        *(
            Mode(f"C++, auto, {name}", (*cpp, "--speculate", "auto", "--draft-bundle", draft))
            for name, draft in drafts.items()
        ),
    ]


def _time(
    name: str, modes: list[Mode], prompt: list[int], options: tuple[str, ...], settings: Settings
) -> list[str]:
    settings.console.print(f"speculation, {name} ...", highlight=False)
    wanted = modes[0].run(prompt, settings.threads)
    found = {mode.name: mode.run(prompt, settings.threads) for mode in modes[1:]}
    # Drafts that are drawn leave the distribution as it is, and not the tokens of a seed. With activations of 8 bits
    # the last bit of a sum moves logits by far more, so a draw may fall otherwise in a step of another width.
    free = [mode for mode in found if "--seed" in options and ("draft" in mode or not name.startswith("fp32"))]
    differ = [mode for mode, tokens in found.items() if tokens != wanted and mode not in free]
    for mode in modes:
        mode.rates.clear()
    for _ in range(settings.rounds):
        for mode in modes:
            mode.run(prompt, settings.threads)
    return [f"{name}: the answer of {mode} differs" for mode in differ]


def _missed(kind: str, modes: list[Mode]) -> list[str]:
    """Ratios on the wrong side of their limits."""
    python, plain, *others = modes
    ratio = paired_ratio(python.rates, plain.rates)
    faults = [f"{kind}: Python is {ratio:.2f}x as fast as C++"] if ratio > MOST_PYTHON else []
    for mode in others:
        least, ratio = LEAST[kind, mode.name], paired_ratio(mode.rates, plain.rates)
        if ratio < least:
            faults.append(f"{kind}, {mode.name}: {ratio:.2f}x plain decoding, at least {least}x is asked for")
    return faults


def _row(target: str, kind: str, mode: Mode, plain: Mode) -> dict[str, Any]:
    speculation = mode.stats["speculation"]
    speed = speculation["speed_model"]
    return {
        "target": target,
        "text": kind,
        "mode": mode.name,
        "tokens_per_second": median(mode.rates),
        "against_plain": paired_ratio(mode.rates, plain.rates),
        "rounds": speculation["rounds"],
        "fallback_rounds": speculation["fallback_rounds"],
        "accepted_lengths": speculation["accepted_lengths"],
        "speed_model": speed,
        "all": asdict(mode)["rates"],
    }


def _table(rows: list[dict[str, Any]]) -> Table:
    titles = ("target", "text", "", "tokens/s", "against plain", "rounds", "rounds with 0, 1, 2 ... drafts accepted")
    out = Table(*titles, box=None)
    for column in out.columns[3:6]:
        column.justify = "right"
    for row in rows:
        out.add_row(
            row["target"], row["text"], row["mode"], f"{row['tokens_per_second']:.1f}", f"{row['against_plain']:.2f}x",
            str(row["rounds"]), " ".join(map(str, row["accepted_lengths"])),
        )  # fmt: skip
    return out

