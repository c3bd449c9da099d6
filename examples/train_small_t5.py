"""Train a T5 small enough to commit (0.7 MB): it reverses strings of distinct letters and digits.

    python examples/train_small_t5.py --output tests/data/small_t5

The result is an ordinary Hugging Face checkpoint, in under two minutes on two cores. The output is as long
as the input, so every request ends with EOS at a length of its own. Some lengths are never shown in training;
the exact match on those is measured too, and the checkpoint is saved only if both reach 99 %.

Shape legend: ``B`` batch, ``E`` encoder positions, ``T`` decoder positions, ``V`` vocabulary.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from torch import Tensor
from transformers import GenerationConfig, PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

PAD, EOS, UNKNOWN = "<pad>", "</s>", "<unk>"
SYMBOLS = "abcdefghijklmnopqrstuvwxyz0123456789"
LONGEST = 24
HELD_OUT_LENGTHS = (7, 13, 19)
TRAINED_LENGTHS = tuple(n for n in range(1, LONGEST + 1) if n not in HELD_OUT_LENGTHS)
REQUIRED_EXACT_MATCH = 0.99
IGNORED_LABEL = -100


@dataclass(frozen=True)
class Settings:
    """What a run depends on: the same settings give the same task, weights and order of examples."""

    steps: int
    batch: int
    learning_rate: float
    seed: int


def build_tokenizer() -> PreTrainedTokenizerFast:
    """One token per character; EOS is appended; decoding joins the characters."""
    vocabulary = {token: index for index, token in enumerate([PAD, EOS, UNKNOWN, *SYMBOLS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", behavior="isolated")
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"$A {EOS}", special_tokens=[(EOS, vocabulary[EOS])]
    )
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=PAD, eos_token=EOS, unk_token=UNKNOWN, model_max_length=512
    )


def build_model(tokenizer: PreTrainedTokenizerFast) -> T5ForConditionalGeneration:
    """A T5 of about 170,000 parameters, two layers on each side, original T5 arithmetic (ReLU, tied)."""
    config = T5Config(
        vocab_size=len(tokenizer),
        d_model=64,
        d_kv=16,
        d_ff=128,
        num_heads=4,
        num_layers=2,
        num_decoder_layers=2,
        dropout_rate=0.0,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        decoder_start_token_id=tokenizer.pad_token_id,
    )
    return T5ForConditionalGeneration(config)


def draw_strings(generator: random.Random, count: int, lengths: Sequence[int]) -> list[str]:
    """``count`` strings of distinct symbols, their lengths drawn evenly from ``lengths``."""
    return ["".join(generator.sample(SYMBOLS, generator.choice(lengths))) for _ in range(count)]


def training_batch(tokenizer: PreTrainedTokenizerFast, strings: list[str]) -> dict[str, Tensor]:
    """Source ids and mask int64[B, E], labels int64[B, T] with padding ignored by the loss."""
    source = tokenizer(strings, padding=True, return_tensors="pt")
    target = tokenizer([text[::-1] for text in strings], padding=True, return_tensors="pt").input_ids
    return {
        "input_ids": source.input_ids,
        "attention_mask": source.attention_mask,
        "labels": target.masked_fill(target == tokenizer.pad_token_id, IGNORED_LABEL),
    }


def train(
    model: T5ForConditionalGeneration,
    tokenizer: PreTrainedTokenizerFast,
    settings: Settings,
    console: Console,
) -> None:
    """Fit the model in place with AdamW, a short warm-up and a linear decay."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate, weight_decay=0.0)
    warm_up = max(1, settings.steps // 20)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warm_up, 1 - step / settings.steps)
    )
    generator = random.Random(settings.seed)
    columns = (
        TextColumn("training"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]}"),
    )
    model.train()
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        task = progress.add_task("training", total=settings.steps, loss="-")
        for _ in range(settings.steps):
            batch = training_batch(tokenizer, draw_strings(generator, settings.batch, TRAINED_LENGTHS))
            loss = model(**batch).loss
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            progress.update(task, advance=1, loss=f"{loss.item():.4f}")


@torch.no_grad()
def exact_match(
    model: T5ForConditionalGeneration, tokenizer: PreTrainedTokenizerFast, strings: list[str]
) -> float:
    """Share of ``strings`` that greedy decoding reverses without a fault, EOS included."""
    model.eval()
    source = tokenizer(strings, padding=True, return_tensors="pt")
    generated = model.generate(
        input_ids=source.input_ids,
        attention_mask=source.attention_mask,
        do_sample=False,
        max_new_tokens=LONGEST + 4,
    )
    texts = tokenizer.batch_decode(generated, skip_special_tokens=True)
    return sum(text == string[::-1] for text, string in zip(texts, strings, strict=True)) / len(strings)


def save(model: T5ForConditionalGeneration, output: Path, record: dict[str, object]) -> None:
    """Write config, weights, tokenizer, generation settings and ``training.json`` into ``output``."""
    model.generation_config = GenerationConfig(
        decoder_start_token_id=model.config.decoder_start_token_id,
        eos_token_id=model.config.eos_token_id,
        pad_token_id=model.config.pad_token_id,
        max_new_tokens=LONGEST + 8,
    )
    model.save_pretrained(output)
    build_tokenizer().save_pretrained(output)  # a new one: batches leave their padding in the one used
    (output / "training.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(
        description="Train a tiny T5 that reverses strings, and save it as a Hugging Face checkpoint.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("-o", "--output", type=Path, default=Path("small_t5"), help="checkpoint directory")
    parser.add_argument("--steps", type=int, default=1600, help="optimizer steps")
    parser.add_argument("--batch", type=int, default=32, help="strings per step")
    parser.add_argument("--learning-rate", type=float, default=4e-3, help="peak learning rate")
    parser.add_argument("--seed", type=int, default=0, help="seed of the weights and of the strings")
    parser.add_argument(
        "--threads", type=int, default=1, help="torch threads; this model is too small to gain from more"
    )
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Train, measure, save. Exit code 1 when the exact match is too low to be worth saving."""
    options = parse_arguments(arguments)
    settings = Settings(options.steps, options.batch, options.learning_rate, options.seed)
    console = Console()
    torch.set_num_threads(options.threads)
    torch.manual_seed(settings.seed)
    tokenizer = build_tokenizer()
    model = build_model(tokenizer)
    start = time.perf_counter()
    train(model, tokenizer, settings, console)
    seconds = time.perf_counter() - start
    fresh = random.Random(settings.seed + 1)
    scores = {
        "trained lengths": exact_match(model, tokenizer, draw_strings(fresh, 500, TRAINED_LENGTHS)),
        "held-out lengths": exact_match(model, tokenizer, draw_strings(fresh, 500, HELD_OUT_LENGTHS)),
    }
    table = Table(
        "exact match on 500 fresh strings", "", title=f"{seconds:.0f} s, {model.num_parameters():,} weights"
    )
    for label, score in scores.items():
        table.add_row(label, f"{score:.1%}")
    console.print(table)
    if min(scores.values()) < REQUIRED_EXACT_MATCH:
        console.print(
            f"not saved: exact match below {REQUIRED_EXACT_MATCH:.0%}; try more --steps", style="red"
        )
        return 1
    record = {**vars(settings), "held_out_lengths": HELD_OUT_LENGTHS, "exact_match": scores}
    save(model, options.output, record)
    console.print(f"saved {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
