"""`run-model generate`: run prompts, token ids or sound files through a bundle."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from runtime_shims.commands.common import (
    BackendOption,
    BundleArgument,
    DebugOption,
    JsonOption,
    NoVerifyOption,
    RunsOn,
    ThreadsOption,
    quiet_libraries,
    start_session,
)
from runtime_shims.commands.decoding_options import (
    DecodingOptions,
    DraftBundleOption,
    NumDraftsOption,
    OpenDecoding,
    SpeculateOption,
    check_decoding,
    open_decoding,
    stop_strings,
)
from runtime_shims.commands.generate_output import (
    Answer,
    OutputOptions,
    TokenPrinter,
    print_answers,
    print_note_of_empty,
)
from runtime_shims.commands.inputs import (
    InputOptions,
    InputRow,
    batches,
    check_options,
    check_rows,
    read_rows,
    source_of,
)
from runtime_shims.commands.numbers import number
from runtime_shims.commands.sampling_options import (
    MaxNewTokensOption,
    MinNewTokensOption,
    MinPOption,
    NoRepeatNgramOption,
    RepetitionPenaltyOption,
    SeedOption,
    StopOption,
    TemperatureOption,
    TopKOption,
    TopPOption,
)
from runtime_shims.contract.bundle_reader import Bundle, read_bundle
from runtime_shims.contract.errors import CapacityExceeded, UserInputError
from runtime_shims.contract.pieces import read_pieces
from runtime_shims.reference.sampling_settings import SamplingSettings

if TYPE_CHECKING:
    from runtime_shims.reference.session import Session
    from runtime_shims.reference.stats import RunStats
    from runtime_shims.reference.text import TextDecoder

INPUT = "Input"
OUTPUT = "Output"
STATS_HELP = (
    "Print times, acceptance and memory to stderr. Load is everything before the first batch, checking hashes too; "
    "decode counts the tokens behind each row's first one, which prefill brings."
)


@dataclass(frozen=True)
class RunOptions:
    """How to run, beside what to run and what to print. `started` is when the bundle was opened."""

    started: float
    backend: str | None
    threads: int | None
    decoding: DecodingOptions
    draft: Bundle | None
    output: OutputOptions


def generate(
    bundle: BundleArgument,
    prompt: Annotated[
        list[str] | None,
        typer.Option("--prompt", "-p", help="Text to continue; repeat for a batch.", rich_help_panel=INPUT),
    ] = None,
    prompts_file: Annotated[
        Path | None,
        typer.Option(help="Text file of one prompt per line, run in batches.", metavar="FILE", rich_help_panel=INPUT),
    ] = None,
    chat: Annotated[bool, typer.Option("--chat", help="Use the model's chat template.", rich_help_panel=INPUT)] = False,
    system: Annotated[
        str | None, typer.Option(help="System text of the chat.", metavar="TEXT", rich_help_panel=INPUT)
    ] = None,
    ids: Annotated[
        list[str] | None,
        typer.Option(help="Token ids, e.g. 1,2,3; repeat for a batch.", metavar="IDS", rich_help_panel=INPUT),
    ] = None,
    audio: Annotated[
        list[Path] | None,
        typer.Option(help="Sound file; repeat for a batch.", metavar="FILE", rich_help_panel=INPUT),
    ] = None,
    audio_start: Annotated[
        float,
        typer.Option(
            help="Where to start, in seconds.", metavar="S", rich_help_panel=INPUT, parser=number("--audio-start")
        ),
    ] = 0.0,
    audio_seconds: Annotated[
        float | None,
        typer.Option(
            help="How much of it, in seconds.", metavar="S", rich_help_panel=INPUT, parser=number("--audio-seconds")
        ),
    ] = None,
    max_new_tokens: MaxNewTokensOption = None,
    temperature: TemperatureOption = 0.0,
    top_k: TopKOption = 0,
    top_p: TopPOption = 1.0,
    min_p: MinPOption = 0.0,
    repetition_penalty: RepetitionPenaltyOption = 1.0,
    no_repeat_ngram: NoRepeatNgramOption = 0,
    min_new_tokens: MinNewTokensOption = 0,
    seed: SeedOption = 0,
    stop: StopOption = None,
    speculate: SpeculateOption = "off",
    draft_bundle: DraftBundleOption = None,
    num_drafts: NumDraftsOption = None,
    backend: BackendOption = None,
    threads: ThreadsOption = None,
    stream: Annotated[
        bool,
        typer.Option("--stream", help="Print text as it is generated.", rich_help_panel=OUTPUT),
    ] = False,
    stats: Annotated[
        bool, typer.Option("--stats", help=STATS_HELP, rich_help_panel=OUTPUT)
    ] = False,
    as_json: JsonOption = False,
    no_verify: NoVerifyOption = False,
    debug: DebugOption = False,
) -> None:
    """Generate text, a translation or a transcript.

    Tokens are the best ones (greedy), or drawn with --temperature.

    With --speculate several tokens are proposed and verified in one step.
    """
    settings = SamplingSettings(
        temperature, top_k, top_p, min_p, repetition_penalty, no_repeat_ngram, min_new_tokens, max_new_tokens, seed
    )
    decoding = DecodingOptions(settings, tuple(stop or ()), speculate, draft_bundle, num_drafts)
    inputs = InputOptions(
        prompts=tuple(prompt or ()),
        prompts_file=prompts_file,
        chat=chat,
        system=system,
        ids=tuple(ids or ()),
        audio=tuple(audio or ()),
        audio_start=audio_start,
        audio_seconds=audio_seconds,
    )
    output = OutputOptions(stream=stream, stats=stats, as_json=as_json)
    started = time.perf_counter()
    opened = read_bundle(bundle, check_hashes=not no_verify)
    check_options(opened, inputs)
    draft = check_decoding(opened, decoding, check_hashes=not no_verify)
    run(opened, inputs, RunOptions(started, backend, threads, decoding, draft, output))


def run(bundle: Bundle, inputs: InputOptions, options: RunOptions) -> None:
    """Read the input, load the program, generate batch by batch, print."""
    quiet_libraries()
    rows, decoder = _read(bundle, inputs)
    size = bundle.manifest.limits.max_batch
    if len(rows) > size and inputs.prompts_file is None:
        advice = "give fewer --audio" if inputs.audio else "use --prompts-file, which runs in batches"
        raise CapacityExceeded(
            f"{len(rows)} rows were given, the bundle runs at most {size} at once; "
            f"{advice}, or export with a larger --max-batch"
        )
    if options.output.stream and len(rows) > 1 and not options.output.as_json:
        raise UserInputError(f"--stream prints one row, {len(rows)} were given; add --json for all of them")
    check_rows(rows, bundle.manifest)
    stops = stop_strings(decoder, options.decoding.stops)
    session = start_session(bundle, options.backend, options.threads)
    runs_on = RunsOn(options.backend, options.threads)
    opened = open_decoding(session, options.draft, stops, options.decoding, min(len(rows), size), runs_on)
    load_seconds = time.perf_counter() - options.started
    answers, stats, interrupt = _generate(session, rows, decoder, opened, options)
    speculation = {**opened.report, "running_acceptance": opened.running_acceptance(), **stats.speculation()}
    measured = {**stats.as_dict(), "speculation": speculation, "interrupted": interrupt is not None}
    print_answers(answers, {"load_seconds": load_seconds, **measured}, options.output)
    if not inputs.chat and (inputs.prompts or inputs.prompts_file) and bundle.manifest.kind == "decoder_only":
        print_note_of_empty(answers)
    if interrupt is not None:
        raise interrupt


def _generate(
    session: Session, rows: Sequence[InputRow], decoder: TextDecoder | None, opened: OpenDecoding, options: RunOptions
) -> tuple[list[Answer], RunStats, KeyboardInterrupt | None]:
    """Answers batch by batch, what they cost, and the interrupt that ended the run with what there was."""
    from runtime_shims.reference.generation import GenerationInterrupted
    from runtime_shims.reference.generation import generate as generate_rows
    from runtime_shims.reference.stats import RunStats
    from runtime_shims.reference.stop_strings import cut

    stats = RunStats()
    answers: list[Answer] = []
    interrupt: KeyboardInterrupt | None = None
    stops = options.decoding.stops
    for batch in batches(rows, opened.max_batch):
        printer = TokenPrinter(decoder, len(answers), options.output, stops) if options.output.stream else None
        try:
            generations = generate_rows(
                session,
                [row.prompt for row in batch],
                source_of(batch, session),
                on_token=printer,
                stats=stats,
                how=replace(opened.how, first_row=len(answers)),
            )
        except KeyboardInterrupt as error:
            interrupt = error
            generations = error.generations if isinstance(error, GenerationInterrupted) else []
        if printer is not None:
            printer.finish()
        for row, answer in zip(batch, generations, strict=interrupt is None):
            text = cut(decoder.decode(answer.tokens), stops) if decoder else None
            answers.append(Answer(len(answers), row.label, text, answer))
        if interrupt is not None:
            break
    return answers, stats, interrupt


def _read(bundle: Bundle, inputs: InputOptions) -> tuple[list[InputRow], TextDecoder | None]:
    """The rows, and what decodes their answers: the same for prompts and for the ids that they become."""
    from runtime_shims.reference.text import PieceDecoder, load_text_codec, load_text_decoder

    if not (inputs.prompts or inputs.prompts_file):
        return read_rows(bundle, inputs, None), load_text_decoder(bundle)
    codec, pieces = load_text_codec(bundle), read_pieces(bundle)
    return read_rows(bundle, inputs, codec), codec if pieces is None else PieceDecoder(pieces)
