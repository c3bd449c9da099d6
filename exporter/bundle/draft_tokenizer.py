"""Whether two checkpoints split text alike: a draft's tokens are looked at as the target's."""

from __future__ import annotations

import tempfile
from pathlib import Path

from exporter.bundle.writer import TOKENIZER_DIRECTORY, save_text_files
from exporter.spec.faults import PlanError
from exporter.spec.model_source import ModelSource
from runtime_shims.contract.bundle_reader import sha256_of
from runtime_shims.reference.draft_bundle import TOKENIZER_FILE


def require_same_tokenizer(target: ModelSource, draft: ModelSource) -> None:
    """Raise PlanError unless both write the same `tokenizer.json`, or neither has a tokenizer."""
    wanted, found = _digest(target), _digest(draft)
    if found != wanted:
        fault = f"SHA-256 of {TOKENIZER_FILE} {found} instead of {wanted}; use a model of the same tokenizer"
        raise PlanError(f"--draft {draft.model} cannot draft for {target.model}", [fault])


def _digest(source: ModelSource) -> str:
    """The beginning of the digest of the tokenizer as a bundle would carry it, or that there is none."""
    with tempfile.TemporaryDirectory() as directory:
        save_text_files(Path(directory), source.load_tokenizer(), None)
        path = Path(directory) / TOKENIZER_DIRECTORY / Path(TOKENIZER_FILE).name
        return sha256_of(path)[:12] if path.exists() else "none (no tokenizer)"
