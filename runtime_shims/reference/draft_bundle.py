"""Whether one bundle can draft for another: both must mean the same by a token."""

from __future__ import annotations

from runtime_shims.contract.bundle_reader import Bundle
from runtime_shims.contract.errors import UserInputError
from runtime_shims.contract.manifest import Manifest

TOKENIZER_FILE = "tokenizer/tokenizer.json"


def check_draft_bundle(target: Bundle, draft: Bundle, *, is_own: bool = False) -> None:
    """Raise UserInputError that names everything in which the bundles differ and must not.

    Capacities may differ: a smaller draft drafts less. A bundle's own draft has the tokenizer of its bundle.
    """
    ours, theirs = target.manifest, draft.manifest
    facts: dict[str, tuple[object, object]] = {
        "kind": (ours.kind, theirs.kind),
        "vocabulary size": (ours.tokens.vocab_size, theirs.tokens.vocab_size),
        "end-of-sequence tokens": (sorted(ours.tokens.eos), sorted(theirs.tokens.eos)),
        "start tokens": (list(ours.tokens.start), list(theirs.tokens.start)),
        "shape of the sound": (_sound(ours), _sound(theirs)),
    }
    if not is_own:
        facts[f"SHA-256 of {TOKENIZER_FILE}"] = (_tokenizer(ours), _tokenizer(theirs))
    faults = [f"{what} {found} instead of {wanted}" for what, (wanted, found) in facts.items() if found != wanted]
    if faults:
        raise UserInputError(
            f"{draft.root} cannot draft for {target.root}: {', '.join(faults)}; "
            f"give --draft-bundle a smaller or quantized model of the same tokenizer"
        )


def _sound(manifest: Manifest) -> object:
    """What the encoder takes of sound; capacities apart."""
    speech = manifest.speech
    if speech is None or speech.positions is None:
        return manifest.limits.source_shape
    return f"{speech.positions.stride} samples a position at {speech.sampling_rate} Hz"


def _tokenizer(manifest: Manifest) -> str:
    """The beginning of the tokenizer's digest, or that there is none."""
    digests = [entry.sha256[:12] for entry in manifest.files if entry.path == TOKENIZER_FILE]
    return digests[0] if digests else "none (no tokenizer)"
