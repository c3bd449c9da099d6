"""Real models, bundle against stock eager transformers: the same answers first, then speed and memory.

    python tests/benchmarks/bench_models.py [--models gemma3 smollm2 whisper] [--threads 2] [--json FILE]

Every engine runs in a process of its own (`model_engines.py`), loads fp32 weights and gets the same number of
threads. Both answer once; unless the tokens are equal nothing is timed. Then the engines take turns, so that
both see the same machine; every timed answer is compared too. Times are medians. Use an idle machine.

`--work DIR` keeps bundles and checkpoints for the next run; empty it when the exporter has changed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

REPOSITORY = Path(__file__).parents[2]
sys.path[:0] = [str(REPOSITORY), str(Path(__file__).parent)]

from model_engines import Job  # noqa: E402

from runtime_shims.contract.bundle_reader import Bundle  # noqa: E402
from runtime_shims.contract.manifest import to_json  # noqa: E402
from tests.real.exports import Exports  # noqa: E402
from tests.support.real import load_gguf, real_weights  # noqa: E402

MODELS = ("gemma3", "smollm2", "whisper")
ENGINES = ("eager", "bundle")
PACKAGES = ("fixed-capacity", "torch", "executorch", "transformers")
PROMPT = "The lighthouse keeper had not seen another ship for forty days when, on a morning of thick fog,"
AUDIO_SECONDS = 20.0


@dataclass(frozen=True)
class Workload:
    """What is run: a model, rows of the same prompt length at once, new tokens per row."""

    model: str
    rows: int
    new_tokens: int


WORKLOADS = (
    Workload("gemma3", 1, 64),
    Workload("smollm2", 1, 64),
    Workload("smollm2", 4, 64),
    Workload("whisper", 1, 0),
)


class Engine:
    """An engine's process: one JSON line per command."""

    def __init__(self, job: Job) -> None:
        """Start it and wait until the model is loaded."""
        environment = os.environ | {"OMP_NUM_THREADS": str(job.threads), "HF_HUB_OFFLINE": "1"}
        command = [sys.executable, "-W", "ignore", str(Path(__file__).with_name("model_engines.py"))]
        self._process = subprocess.Popen(
            [*command, json.dumps(asdict(job))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        self.load_seconds: float = self._read()["load_seconds"]

    def answer(self) -> dict[str, Any]:
        """Run the workload once: tokens and seconds."""
        return self._ask("answer")

    def finish(self) -> dict[str, Any]:
        """End the process; its peak memory."""
        last = self._ask("finish")
        self._process.wait()
        return last

    def _ask(self, command: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"an engine ended with exit code {self._process.wait()}")
        return json.loads(line)


def prepare(model: str, work: Path) -> tuple[Path, Bundle]:
    """The dense fp32 checkpoint that eager loads, and the bundle of the same weights."""
    exports = Exports(work, work)
    if model == "whisper":
        return real_weights().whisper_tiny_en_checkpoint(work), exports.bundle(model, "fused")
    checkpoint = work / f"{model}-dense"
    if not checkpoint.is_dir():
        gguf = real_weights().smollm2_gguf() if model == "smollm2" else real_weights().gemma3_270m_gguf(work)
        loaded, tokenizer = load_gguf(gguf)
        loaded.config.__dict__.pop("quantization_config", None)
        loaded.save_pretrained(checkpoint)
        tokenizer.save_pretrained(checkpoint)
    return checkpoint, exports.bundle(model, "fused")


def jobs(workload: Workload, checkpoint: Path, bundle: Bundle, threads: int) -> dict[str, Job]:
    """One job per engine."""
    audio = str(real_weights().speech_wavs()[1]) if workload.model == "whisper" else None
    return {
        engine: Job(
            engine=engine,
            path=str(bundle.root if engine == "bundle" else checkpoint),
            checkpoint=str(checkpoint),
            threads=threads,
            rows=workload.rows,
            new_tokens=workload.new_tokens,
            prompt=PROMPT,
            audio=audio,
            audio_seconds=AUDIO_SECONDS,
        )
        for engine in ENGINES
    }


def measure(workload: Workload, work: Path, threads: int, rounds: int) -> dict[str, Any]:
    """Answers, checked; then medians over `rounds` in which the engines take turns."""
    checkpoint, bundle = prepare(workload.model, work)
    engines = {name: Engine(job) for name, job in jobs(workload, checkpoint, bundle, threads).items()}
    first = {name: engine.answer() for name, engine in engines.items()}
    expected = first["eager"]["tokens"]
    timed: dict[str, list[dict[str, Any]]] = {name: [] for name in ENGINES}
    check(workload, expected, first["bundle"]["tokens"])
    for _ in range(rounds):
        for name, engine in engines.items():
            answer = engine.answer()
            check(workload, expected, answer["tokens"])
            timed[name].append(answer)
    recipe = json.dumps(json.loads(to_json(bundle.manifest))["recipe"], sort_keys=True)
    return {
        **asdict(workload),
        "tokens": sum(map(len, expected)),
        "recipe_sha256": hashlib.sha256(recipe.encode()).hexdigest(),
        **{name: result(engines[name], timed[name], bundle) for name in ENGINES},
    }


def check(workload: Workload, expected: list[list[int]], got: list[list[int]]) -> None:
    """End the run unless the answers are equal: a wrong answer is not worth timing."""
    if expected != got:
        raise SystemExit(f"{workload}: the answers differ, nothing is timed\neager  {expected}\nbundle {got}")


def result(engine: Engine, answers: list[dict[str, Any]], bundle: Bundle) -> dict[str, Any]:
    """Medians of one engine's answers, rates of decoding, memory."""
    seconds = {
        key: statistics.median(answer[key] for answer in answers)
        for key in ("first_token", "decode", "total")
    }
    steps = len(answers[0]["tokens"][0]) - 1
    rows = len(answers[0]["tokens"])
    weights = bundle.manifest.memory.weights_bytes
    return {
        **{f"{key}_seconds": round(value, 4) for key, value in seconds.items()},
        "decode_tokens_per_second": round(rows * steps / seconds["decode"], 2) if seconds["decode"] else None,
        "weights_gb_per_second": round(steps * weights / seconds["decode"] / 1e9, 2)
        if seconds["decode"]
        else None,
        "load_seconds": round(engine.load_seconds, 2),
        **engine.finish(),
    }


def conditions(threads: int, rounds: int) -> dict[str, Any]:
    """What the numbers depend on beside the code."""

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=False
        ).stdout.strip()

    cpu = Path("/proc/cpuinfo")
    names = (
        [
            line.partition(":")[2].strip()
            for line in cpu.read_text().splitlines()
            if line.startswith("model name")
        ]
        if cpu.exists()
        else []
    )
    return {
        "commit": git("rev-parse", "HEAD"),
        "uncommitted_changes": bool(git("status", "--porcelain", "--untracked-files=no")),
        "machine": {
            "system": platform.platform(),
            "processor": names[0] if names else platform.processor(),
            "cores": os.cpu_count(),
            "load_average": os.getloadavg(),
        },
        "packages": {name: version(name) for name in PACKAGES},
        "threads": threads,
        "rounds": rounds,
    }


def table(results: list[dict[str, Any]]) -> Table:
    """One row per workload and engine."""
    out = Table(box=None, pad_edge=False, header_style="bold")
    out.add_column("workload", no_wrap=True)
    out.add_column("engine")
    for name in ("first token s", "decode tokens/s", "GB/s", "total s", "faster", "peak RSS MB", "load s"):
        out.add_column(name, justify="right")
    for found in results:
        for name in ENGINES:
            row = found[name]
            rate, bandwidth = row["decode_tokens_per_second"], row["weights_gb_per_second"]
            out.add_row(
                f"{found['model']}, {found['rows']} rows, {found['tokens']} tokens"
                if name == ENGINES[0]
                else "",
                name,
                f"{row['first_token_seconds']:.3f}",
                "-" if rate is None else f"{rate:.1f}",
                "-" if bandwidth is None else f"{bandwidth:.1f}",
                f"{row['total_seconds']:.3f}",
                f"{found['eager']['total_seconds'] / row['total_seconds']:.2f}x",
                f"{row['peak_rss_bytes'] / 1e6:.0f}",
                f"{row['load_seconds']:.1f}",
            )
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument(
        "--threads", type=int, default=2, help="threads of each engine (default: %(default)s)"
    )
    parser.add_argument(
        "--rounds", type=int, default=5, help="timed answers per engine (default: %(default)s)"
    )
    parser.add_argument(
        "--work", type=Path, help="keep bundles and checkpoints here; default: a temporary directory"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results here")
    options = parser.parse_args()
    console = Console(width=max(Console().width, 120))
    with tempfile.TemporaryDirectory(prefix="bench-models-") as scratch:
        work = options.work or Path(scratch)
        work.mkdir(parents=True, exist_ok=True)
        results = []
        for workload in WORKLOADS:
            if workload.model in options.models:
                console.print(f"{workload.model}, {workload.rows} rows ...", highlight=False)
                results.append(measure(workload, work, options.threads, options.rounds))
    report = {**conditions(options.threads, options.rounds), "results": results}
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    console.print(table(results))


if __name__ == "__main__":
    main()
