"""What `generate` prints: text for people, JSON for programs, tokens as they come."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from runtime_shims.commands.common import print_json
from runtime_shims.contract.formatting import format_bytes

if TYPE_CHECKING:
    from rich.console import Group
    from rich.text import Text

    from runtime_shims.reference.generation import Generation
    from runtime_shims.reference.stop_strings import TextGate
    from runtime_shims.reference.text import TextDecoder
    from runtime_shims.reference.text_stream import TextStream

Statistics = Mapping[str, Any]
BAR = 30
"""Columns of the longest bar of a histogram."""


@dataclass(frozen=True)
class OutputOptions:
    """The output options of the command line."""

    stream: bool
    stats: bool
    as_json: bool


@dataclass(frozen=True)
class Answer:
    """One finished row; `text` is None when the bundle carries no tokenizer."""

    row: int
    label: str
    text: str | None
    generation: Generation

    def shown(self) -> str:
        """The text, or the token ids when there is none."""
        return " ".join(map(str, self.generation.tokens)) if self.text is None else self.text

    def as_dict(self) -> dict[str, object]:
        """For JSON output."""
        return {
            "row": self.row,
            "input": self.label,
            "text": self.text,
            "tokens": list(self.generation.tokens),
            "stop_reason": self.generation.stop_reason,
            "prompt_tokens": self.generation.prompt_tokens,
        }


class TokenPrinter:
    """Prints tokens as they are chosen: plain text for one row, a JSON object per line for many."""

    def __init__(
        self, codec: TextDecoder | None, first_row: int, options: OutputOptions, stops: Sequence[str] = ()
    ) -> None:
        """`first_row` numbers row 0 of this batch; without a codec token ids are printed. `stops` are not printed."""
        self._codec = codec
        self._first_row = first_row
        self._as_json = options.as_json
        self._stops = stops
        self._streams: dict[int, tuple[TextStream, TextGate]] = {}

    def __call__(self, row: int, token: int) -> None:
        """Print one token of row `row`."""
        text = f"{token} "
        if self._codec is not None:
            stream, gate = self._stream(row, self._codec)
            text = gate.push(stream.push(token))
        if self._as_json:
            event = {"row": self._first_row + row, "token": token}
            self._write(json.dumps(event if self._codec is None else {**event, "text": text}) + "\n")
        else:
            self._write(text)

    def finish(self) -> None:
        """Print what the decoders still hold back, and end the line."""
        for row, (stream, gate) in self._streams.items():
            rest = gate.push(stream.finish()) + gate.finish()
            if self._as_json and rest:
                self._write(json.dumps({"row": self._first_row + row, "token": None, "text": rest}) + "\n")
            elif not self._as_json:
                self._write(rest)
        if not self._as_json:
            self._write("\n")

    def _stream(self, row: int, codec: TextDecoder) -> tuple[TextStream, TextGate]:
        from runtime_shims.reference.stop_strings import TextGate

        if row not in self._streams:
            self._streams[row] = codec.stream(), TextGate(self._stops)
        return self._streams[row]

    @staticmethod
    def _write(text: str) -> None:
        typer.echo(text, nl=False)


def print_note_of_empty(answers: Sequence[Answer]) -> None:
    """Say on stderr which texts ended before they began: models that were taught to chat do, without their template."""
    texts = {one.row: one.text for one in answers if one.generation.stop_reason == "eos" and one.text is not None}
    rows = ", ".join(f"row {row}" for row, text in texts.items() if not text.strip())
    if rows:
        advice = "models that were taught to chat need --chat, and --min-new-tokens keeps others going"
        typer.echo(f"{rows}: the model ended at once, with an empty text; {advice}", err=True)


def print_answers(answers: Sequence[Answer], statistics: Statistics, options: OutputOptions) -> None:
    """Print the finished rows, unless they have been streamed, and what they cost."""
    if options.as_json:
        result = {"generations": [answer.as_dict() for answer in answers], "stats": dict(statistics)}
        if options.stream:
            typer.echo(json.dumps(result))
        else:
            print_json(result)
        return
    if not options.stream:
        for answer in answers:
            typer.echo(f"[{answer.row}] {answer.shown()}" if len(answers) > 1 else answer.shown())
    for answer in answers:
        if answer.generation.stop_reason == "capacity":
            typer.echo(
                f"row {answer.row} stopped because the decoder is full; export with a larger --max-dec to go on",
                err=True,
            )
    if options.stats:
        typer.echo(_statistics_lines(statistics), err=True)
        if statistics["speculation"]["mode"] != "off":
            from rich.console import Console

            Console(stderr=True, highlight=False, markup=False).print(_drafts(statistics["speculation"]))


def _statistics_lines(statistics: Statistics) -> str:
    """Times, rates and memory as three lines."""

    def rate(key: str) -> str:
        value = statistics[key]
        return "-" if value is None else f"{value:.1f} tokens/s"

    peak = format_bytes(int(statistics["peak_rss_bytes"] or 0))
    return (
        f"load {statistics['load_seconds']:.2f} s, peak memory {peak}\n"
        f"prefill {statistics['prefill_tokens']} tokens, {statistics['prefill_seconds']:.3f} s, "
        f"{rate('prefill_tokens_per_second')}; encoder {statistics['encode_seconds']:.3f} s\n"
        f"decode {statistics['decode_tokens']} tokens, {statistics['decode_steps']} steps, "
        f"{statistics['decode_seconds']:.3f} s, {rate('decode_tokens_per_second')}"
    )


def _drafts(speculation: Statistics) -> Group:
    """What became of the drafts: totals, and how many rounds accepted how many."""
    from runtime_shims.commands.tables import new_table, titled

    acceptance, fallbacks = speculation["acceptance"], speculation["fallback_rounds"]
    totals = new_table(["drafts", ">", "time", ">"])
    for name, key, phase, seconds in (
        ("proposed", "proposed", "propose", "propose_ms"),
        ("judged", "evaluated", "verify", "verify_ms"),
        ("accepted", "accepted", "judge, take back", "settle_ms"),
    ):
        totals.add_row(name, f"{speculation[key]:,}", phase, f"{speculation[seconds]:,.1f} ms")
    totals.add_row(
        "acceptance", "-" if acceptance is None else f"{acceptance:.0%}", "rounds", f"{speculation['rounds']:,}"
    )
    totals.add_row("corrections", f"{speculation['corrections']:,}", "without drafts", f"{fallbacks:,}")
    totals.add_row("bonuses", f"{speculation['bonuses']:,}", "", "")
    if speculation["unusable_proposals"]:
        totals.add_row("unusable", f"{speculation['unusable_proposals']:,}", "", "")
    lengths = speculation["accepted_lengths"]
    histogram = new_table([">accepted in a round", ">rows", ""])
    for length, count in enumerate(lengths):
        histogram.add_row(str(length), f"{count:,}", "#" * round(BAR * count / max(lengths)))
    costs = [_costs(speculation["speed_model"])] if speculation["speed_model"] else []
    return titled(f"Speculation: {speculation['mode']}", totals, *([histogram] if lengths else []), *costs)


def _costs(model: Statistics) -> Text:
    """What the speed model measured, in plain steps."""
    from rich.text import Text

    steps = " ".join(f"{cost:.2f}" for cost in model["verify"])
    return Text(f"a step of 1, 2, ... tokens costs {steps}; a draft token {model['draft']:.2f}")
