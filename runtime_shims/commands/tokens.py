"""`run-model tokens`: text to token ids, for a runtime that has no tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from runtime_shims.commands.common import BundleArgument, DebugOption, NoVerifyOption, quiet_libraries
from runtime_shims.commands.inputs import InputOptions, check_options, read_rows
from runtime_shims.contract.bundle_reader import read_bundle


def tokens(
    bundle: BundleArgument,
    prompt: Annotated[list[str] | None, typer.Option("--prompt", "-p", help="Text; repeat for several.")] = None,
    prompts_file: Annotated[
        Path | None, typer.Option(help="Text file of one prompt per line.", metavar="FILE")
    ] = None,
    chat: Annotated[bool, typer.Option("--chat", help="Use the model's chat template.")] = False,
    system: Annotated[str | None, typer.Option(help="System text of the chat.", metavar="TEXT")] = None,
    no_verify: NoVerifyOption = False,
    debug: DebugOption = False,
) -> None:
    """Print the token ids of text, a line for each prompt: what bundle-runner takes as --ids and --batch."""
    inputs = InputOptions(
        prompts=tuple(prompt or ()),
        prompts_file=prompts_file,
        chat=chat,
        system=system,
        ids=(),
        audio=(),
        audio_start=0.0,
        audio_seconds=None,
    )
    opened = read_bundle(bundle, check_hashes=not no_verify)
    check_options(opened, inputs)
    quiet_libraries()
    from runtime_shims.reference.text import load_text_codec

    for row in read_rows(opened, inputs, load_text_codec(opened)):
        ids = row.prompt if row.source_ids is None else row.source_ids
        typer.echo(",".join(map(str, ids)))
