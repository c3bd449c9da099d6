"""The options of `generate` that say how tokens are proposed, and what they and those of the choice need to run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from runtime_shims.commands.common import RunsOn, start_session
from runtime_shims.commands.numbers import whole_number
from runtime_shims.contract.bundle_reader import Bundle, read_bundle
from runtime_shims.contract.errors import UserInputError
from runtime_shims.contract.integers import pictured
from runtime_shims.contract.manifest_rules import SELF_INT4
from runtime_shims.reference.draft_bundle import check_draft_bundle
from runtime_shims.reference.sampling_settings import SamplingSettings

if TYPE_CHECKING:
    from runtime_shims.reference.session import Session
    from runtime_shims.reference.speculative import Decoding
    from runtime_shims.reference.stop_strings import StopStrings
    from runtime_shims.reference.text import TextDecoder

SPECULATION = "Speculation: several tokens per step"
MODES = ("off", "prompt-lookup", "draft", "self", "mtp", "auto")

SpeculateOption = Annotated[
    str,
    typer.Option(
        "--speculate",
        help="Where drafts come from: off; prompt-lookup (what followed the last tokens earlier in the text); draft "
        "(the model of --draft-bundle, or that of export-model --draft); self (the copy of the model that "
        "export-model --draft self-int4 made); mtp (the assistant of export-model --draft mtp, which drafts over the "
        "model's own caches); auto (what the bundle has to draft with, else lookup; as many drafts as "
        "pay by measured speed). Greedy text is unchanged; at a temperature a draft model keeps the distribution, "
        "not the text.",
        metavar="MODE",
        rich_help_panel=SPECULATION,
    ),
]
DraftBundleOption = Annotated[
    Path | None,
    typer.Option(
        help="A smaller, or quantized, model of the same tokenizer.", metavar="BUNDLE", rich_help_panel=SPECULATION
    ),
]
NumDraftsOption = Annotated[
    int | None,
    typer.Option(
        help="Drafts per round. Default: as many as the bundle verifies.",
        metavar="N",
        rich_help_panel=SPECULATION,
        parser=whole_number("--num-drafts", 1),
    ),
]


@dataclass(frozen=True)
class DecodingOptions:
    """The options as they were given."""

    settings: SamplingSettings
    stops: tuple[str, ...]
    speculate: str
    draft_bundle: Path | None
    num_drafts: int | None


def check_decoding(bundle: Bundle, options: DecodingOptions, check_hashes: bool) -> Bundle | None:
    """The draft bundle, if one is given and can draft for `bundle`.

    Raises UserInputError that names every option which this bundle or another option rules out.
    """
    manifest = bundle.manifest
    has_assistant = manifest.assistant is not None
    own_draft = None if has_assistant else manifest.recipe.draft
    faults = list(_faults(options, own_draft, manifest.limits.max_draft))
    if options.speculate == "mtp" and not has_assistant:
        faults.append("--speculate mtp needs a bundle exported with --draft mtp, or with the name of an assistant")
    if faults:
        raise UserInputError("; ".join(faults))
    if options.speculate in ("off", "prompt-lookup", "mtp"):
        return None
    given = options.draft_bundle
    draft = bundle.draft(check_hashes) if given is None else read_bundle(given, check_hashes)
    if draft is not None:
        check_draft_bundle(bundle, draft, is_own=given is None)
    return draft


def _faults(options: DecodingOptions, own_draft: str | None, max_draft: int) -> Iterator[str]:
    mode, drafts, has_draft = options.speculate, options.num_drafts, options.draft_bundle is not None
    if mode not in MODES:
        yield f"--speculate must be one of {', '.join(MODES)}, got {pictured(mode)}"
        return
    if mode == "draft" and own_draft is None and not has_draft:
        needs = "--speculate draft needs --draft-bundle, or a bundle exported with --draft"
        yield f"{needs}; one with an assistant drafts with --speculate mtp"
    if mode == "self" and own_draft != SELF_INT4:
        yield f"--speculate self needs a bundle exported with --draft {SELF_INT4}"
    if mode in ("off", "prompt-lookup", "self", "mtp") and has_draft:
        yield f"--draft-bundle is not used with --speculate {mode}; give --speculate draft or auto"
    if mode in ("off", "auto") and drafts is not None:
        yield f"--num-drafts is not used with --speculate {mode}; give --speculate prompt-lookup, draft, self or mtp"
    if mode != "off" and max_draft == 0:
        yield "the bundle verifies no drafts; export it with --max-draft"
    elif drafts is not None and drafts > max_draft:
        yield f"--num-drafts {drafts}: the bundle verifies at most {max_draft}; export it with a larger --max-draft"


@dataclass(frozen=True)
class OpenDecoding:
    """How to decode, and the rows that the proposer takes at once."""

    how: Decoding
    max_batch: int
    report: dict[str, object]

    def running_acceptance(self) -> float | None:
        """What `auto` has learned so far; None for a fixed number of drafts."""
        return getattr(self.how.drafts, "acceptance", None)


def stop_strings(decoder: TextDecoder | None, texts: tuple[str, ...]) -> StopStrings | None:
    """What ends a row beside its tokens. Raises UserInputError for an empty text, or without a tokenizer."""
    from runtime_shims.reference.stop_strings import StopStrings

    if not texts:
        return None
    if decoder is None:
        raise UserInputError("--stop looks for a text, and the bundle carries no tokenizer; leave it out")
    return StopStrings(texts, decoder.stream)


def open_decoding(
    session: Session,
    draft_bundle: Bundle | None,
    stops: StopStrings | None,
    options: DecodingOptions,
    rows: int,
    runs_on: RunsOn,
) -> OpenDecoding:
    """Load the draft model on the target's threads, and measure speeds, if asked for.

    `rows` is the size of a batch, `runs_on` the target's, whose backend its own draft shares.
    """
    from runtime_shims.reference.adaptive import AdaptiveDrafts, FixedDrafts, measure
    from runtime_shims.reference.assistant_drafts import AssistantDrafts
    from runtime_shims.reference.proposers import DraftModel, PromptLookup, Proposer
    from runtime_shims.reference.speculative import Decoding

    report: dict[str, object] = {"mode": options.speculate, "num_drafts": options.num_drafts, "speed_model": None}
    if options.speculate == "off":
        return OpenDecoding(Decoding(options.settings, stops=stops), rows, report)
    own_backend = runs_on.backend if options.draft_bundle is None else None
    draft = None if draft_bundle is None else start_session(draft_bundle, own_backend, runs_on.threads)
    rows = rows if draft is None else min(rows, draft.limits.max_batch)
    drafts: FixedDrafts | AdaptiveDrafts
    assisted = options.speculate == "mtp" or (
        options.speculate == "auto" and draft is None and session.manifest.assistant is not None
    )
    if options.speculate == "auto":
        model = measure(session, rows, draft, assisted=assisted)
        drafts = AdaptiveDrafts(model, session.limits.max_draft)
        report["speed_model"] = {"verify": list(model.verify), "draft": model.draft}
    else:
        drafts = FixedDrafts(options.num_drafts or session.limits.max_draft)
        report["num_drafts"] = drafts.count
    proposer: Proposer = PromptLookup() if draft is None else DraftModel(draft)
    if assisted:
        proposer = AssistantDrafts(session)
    return OpenDecoding(Decoding(options.settings, proposer, drafts, stops), rows, report)
