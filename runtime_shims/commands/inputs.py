"""What `generate` was asked to run: prompts, token ids or sound files to rows of a request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from runtime_shims.contract.bundle_reader import Bundle
from runtime_shims.contract.errors import UserInputError
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

    Of sound that is a `waveform` [1, N] when the program makes the features, else the `features` themselves.
    """

    label: str
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
        return [_row(bundle, text, parse_ids(text, "--ids")) for text in options.ids]
    texts = options.prompts if options.prompts_file is None else read_prompts(options.prompts_file)
    if codec is None:
        raise UserInputError("the bundle carries no tokenizer; give token ids with --ids")
    encoded = [
        codec.encode_chat(text, options.system) if options.chat else codec.encode(text) for text in texts
    ]
    return [_row(bundle, text, tuple(ids)) for text, ids in zip(texts, encoded, strict=True)]


def batches(rows: Sequence[InputRow], size: int) -> Iterator[Sequence[InputRow]]:
    """The rows in groups of at most `size`."""
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def source_of(rows: Sequence[InputRow], session: Session) -> SourceInput | None:
    """The encoder input of a batch: features stacked, ids ragged, or None for decoder-only rows."""
    waveforms = [row.waveform for row in rows if row.waveform is not None]
    if waveforms:
        import torch

        return session.features(torch.cat(waveforms))
    features = [row.features for row in rows if row.features is not None]
    if features:
        import torch

        return torch.cat(features)
    return [row.source_ids for row in rows if row.source_ids is not None] or None


def read_prompts(path: Path) -> tuple[str, ...]:
    """One prompt per line, with or without a byte-order mark; lines of white space are skipped."""
    if not path.exists():
        raise UserInputError(f"there is no prompts file {path}")
    if path.is_dir():
        raise UserInputError(f"the prompts file {path} is a directory; give a text file of one prompt per line")
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise UserInputError(f"{path} is not UTF-8 text (byte {error.start})") from None
    prompts = tuple(line for line in lines if line.strip())
    if not prompts:
        raise UserInputError(f"{path} holds no prompt; write one per line")
    return prompts


def _row(bundle: Bundle, label: str, ids: tuple[int, ...]) -> InputRow:
    """Ids are the prompt of a decoder-only model and the encoder input of a text-to-text model."""
    if bundle.manifest.kind == "decoder_only":
        return InputRow(label, ids)
    return InputRow(label, bundle.manifest.tokens.start, source_ids=ids)


def _audio_rows(bundle: Bundle, options: InputOptions) -> list[InputRow]:
    """Waveforms for a program with a method `features`; else features of the bundle's own extractor."""
    from runtime_shims.reference.audio import AudioCut, Waveforms, load_speech_features

    cut = AudioCut(options.audio_start, options.audio_seconds)
    start = bundle.manifest.tokens.start
    if bundle.manifest.speech is not None:
        waveforms = Waveforms(bundle.manifest.speech)
        return [InputRow(str(path), start, waveform=waveforms.of_file(path, cut)) for path in options.audio]
    extractor = load_speech_features(bundle)
    return [InputRow(str(path), start, features=extractor.of_file(path, cut)) for path in options.audio]
