"""What `generate` was asked to run: prompts, token ids or sound files to rows of a request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from runtime_shims.contract.bundle_reader import Bundle
from runtime_shims.contract.errors import UserInputError
from runtime_shims.contract.formatting import one_line
from runtime_shims.contract.manifest import Manifest
from runtime_shims.reference.token_ids import parse_ids

if TYPE_CHECKING:
    from torch import Tensor

    from runtime_shims.reference.request import SourceInput
    from runtime_shims.reference.session import Session
    from runtime_shims.reference.text import TextCodec


@dataclass(frozen=True)
class InputOptions:
    """The input options of the command line as they were given."""

    prompts: tuple[str, ...]
    prompts_file: Path | None
    chat: bool
    system: str | None
    ids: tuple[str, ...]
    audio: tuple[Path, ...]
    audio_start: float
    audio_seconds: float | None


@dataclass(frozen=True)
class InputRow:
    """One row of a request: what the user gave, the decoder prompt, the encoder input if there is one.

    `name` says in messages where it stands in the whole input: its number, or its line of a file.
    Of sound that is a `waveform` [1, N] where the program takes sound, else the `features` themselves.
    """

    label: str
    name: str
    prompt: tuple[int, ...]
    source_ids: tuple[int, ...] | None = None
    features: Tensor | None = None
    waveform: Tensor | None = None


def check_options(bundle: Bundle, options: InputOptions) -> None:
    """Raise UserInputError unless exactly one kind of input is given and the bundle takes it."""
    given = {
        "--prompt": bool(options.prompts),
        "--prompts-file": options.prompts_file is not None,
        "--ids": bool(options.ids),
        "--audio": bool(options.audio),
    }
    used = [name for name, is_given in given.items() if is_given]
    speech = bundle.manifest.kind == "speech_seq2seq"
    takes = "--audio" if speech else "--prompt, --prompts-file or --ids"
    if len(used) != 1:
        what = f"{' and '.join(used)} exclude each other" if used else "there is nothing to run"
        raise UserInputError(f"{what}; this bundle takes {takes}")
    if (used[0] == "--audio") != speech:
        raise UserInputError(f"the bundle is {bundle.manifest.kind} and takes {takes}, not {used[0]}")
    if options.chat and (bundle.manifest.kind != "decoder_only" or options.ids):
        raise UserInputError("--chat works on the text prompts of decoder-only bundles")
    if options.system is not None and not options.chat:
        raise UserInputError("--system is part of a conversation; give --chat with it")
    if not speech and (options.audio_start or options.audio_seconds is not None):
        raise UserInputError("--audio-start and --audio-seconds cut the file given with --audio")


def read_rows(bundle: Bundle, options: InputOptions, codec: TextCodec | None) -> list[InputRow]:
    """The rows in the order given. `codec` is needed for text only."""
    if options.audio:
        return _audio_rows(bundle, options)
    if options.ids:
        return [_row(bundle, text, f"row {row}", parse_ids(text, "--ids")) for row, text in enumerate(options.ids)]
    if options.prompts_file is None:
        texts = {f"row {row}": text for row, text in enumerate(options.prompts)}
    else:
        lines, file = read_prompts(options.prompts_file), one_line(str(options.prompts_file))
        texts = {f"{file}, line {number}": text for number, text in lines.items()}
    if codec is None:
        raise UserInputError("the bundle carries no tokenizer; give token ids with --ids")
    encode = partial(codec.encode_chat, system=options.system) if options.chat else codec.encode
    return [_row(bundle, text, name, tuple(encode(text))) for name, text in texts.items()]


def check_rows(rows: Sequence[InputRow], manifest: Manifest) -> None:
    """Every row, before the first batch runs: a wrong one in a late batch must not cost the answers before it.

    Raises UserInputError or CapacityExceeded, naming the row or line.
    """
    from runtime_shims.reference.request import check_prompt, check_source_ids

    for row in rows:
        check_prompt(row.prompt, row.name, manifest)
        if row.source_ids is not None:
            check_source_ids(row.source_ids, len(row.source_ids), row.name, manifest)


def batches(rows: Sequence[InputRow], size: int) -> Iterator[Sequence[InputRow]]:
    """The rows in groups of at most `size`."""
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def source_of(rows: Sequence[InputRow], session: Session) -> SourceInput | None:
    """The encoder input of a batch: features stacked, sound and ids ragged, or None for decoder-only rows."""
    waveforms = [row.waveform for row in rows if row.waveform is not None]
    if waveforms and session.manifest.sound_positions is not None:
        return [waveform[0] for waveform in waveforms]
    if waveforms:
        import torch

        return session.features(torch.cat(waveforms))
    features = [row.features for row in rows if row.features is not None]
    if features:
        import torch

        return torch.cat(features)
    return [row.source_ids for row in rows if row.source_ids is not None] or None


def read_prompts(path: Path) -> dict[int, str]:
    """One prompt per line by the line's number from 1 on; a byte-order mark and lines of white space are skipped."""
    name = one_line(str(path))
    if not path.exists():
        raise UserInputError(f"there is no prompts file {name}")
    if path.is_dir():
        raise UserInputError(f"the prompts file {name} is a directory; give a text file of one prompt per line")
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise UserInputError(f"{name} is not UTF-8 text (byte {error.start})") from None
    prompts = {number: line for number, line in enumerate(lines, 1) if line.strip()}
    if not prompts:
        raise UserInputError(f"{name} holds no prompt; write one per line")
    return prompts


def _row(bundle: Bundle, label: str, name: str, ids: tuple[int, ...]) -> InputRow:
    """Ids are the prompt of a decoder-only model and the encoder input of a text-to-text model."""
    if bundle.manifest.kind == "decoder_only":
        return InputRow(label, name, ids)
    return InputRow(label, name, bundle.manifest.tokens.start, source_ids=ids)


def _audio_rows(bundle: Bundle, options: InputOptions) -> list[InputRow]:
    """Waveforms for a program that takes sound; else features of the bundle's own extractor."""
    from runtime_shims.reference.audio import AudioCut, Waveforms, load_speech_features

    cut = AudioCut(options.audio_start, options.audio_seconds)
    start = bundle.manifest.tokens.start
    if bundle.manifest.speech is not None:
        waveforms = Waveforms(bundle.manifest.speech)
        return [
            InputRow(str(path), f"row {row}", start, waveform=waveforms.of_file(path, cut))
            for row, path in enumerate(options.audio)
        ]
    extractor = load_speech_features(bundle)
    return [
        InputRow(str(path), f"row {row}", start, features=extractor.of_file(path, cut))
        for row, path in enumerate(options.audio)
    ]
