"""Programs that live in memory, and the bundles that describe them. No weights, no files.

`HistoryProgram` keeps the tokens it is told to write and answers with logits that depend on all of
them, so a session that writes to a wrong position, reads a stale one or feeds a wrong row gets other
logits. `ScriptedProgram` besides refuses every token that its script does not have at that position.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor

from runtime_shims.contract.bundle_reader import Bundle
from runtime_shims.contract.errors import FixedCapacityError
from runtime_shims.contract.manifest import (
    CacheEntry,
    Dim,
    FileEntry,
    ForcedToken,
    GenerationSettings,
    Limits,
    Manifest,
    MemoryPlan,
    MethodEntry,
    PackageVersion,
    ProgramEntry,
    ResolvedRecipe,
    Source,
    Speech,
    TensorEntry,
    TokenRules,
    from_json,
    to_json,
)
from runtime_shims.reference.program import StepInputs
from runtime_shims.reference.session import Session

VOCAB = 64
EOS = 1
SHAPE = (4, 6)
"""Shape of one row of speech features in these tests."""


@dataclass(frozen=True)
class BundleShape:
    """The facts that tests vary; everything else of the manifest follows."""

    kind: str = "decoder_only"
    max_batch: int = 8
    max_enc: int = 12
    max_dec: int = 20
    max_draft: int = 3
    prefill_chunk: int = 5
    window: int | None = None
    start: tuple[int, ...] = (0,)
    eos: tuple[int, ...] = (EOS,)
    forced: tuple[ForcedToken, ...] = ()
    suppress: tuple[int, ...] = ()
    begin_suppress: tuple[int, ...] = ()
    max_new_tokens: int | None = None
    speech: Speech | None = None
    backends: tuple[str, ...] = ("xnnpack",)
    files: tuple[FileEntry, ...] = field(default=())
    vocab: int = VOCAB

    @property
    def follows_sound(self) -> bool:
        """Whether `encode` takes sound of any length."""
        return self.speech is not None and self.speech.positions is not None


def make_manifest(shape: BundleShape) -> Manifest:
    """A valid manifest of `shape`, through the reader so that every rule is held."""
    has_encoder = shape.kind != "decoder_only"
    speech = shape.kind == "speech_seq2seq"
    max_enc = shape.max_enc if has_encoder else None
    max_step = max(shape.prefill_chunk, shape.max_draft + 1)
    recipe = ResolvedRecipe(
        model="tiny", max_batch=shape.max_batch, max_enc=max_enc, max_dec=shape.max_dec,
        max_draft=shape.max_draft, prefill_chunk=shape.prefill_chunk, backends=shape.backends,
        attention="portable", quantize="none", embedding_bits=None, group_size=None, dtype="float32",
        index_dtype="int64", draft=None,
    )  # fmt: skip
    limits = Limits(
        shape.max_batch, max_enc, shape.max_dec, shape.max_draft, max_step, shape.max_draft + 1,
        SHAPE if speech and not shape.follows_sound else None,
    )  # fmt: skip
    caches = _caches(shape, max_step)
    cache_bytes = sum(entry.size_bytes for entry in caches)
    planned_bytes = cache_bytes + 2048
    programs = tuple(_program(shape, backend, max_step, planned_bytes) for backend in shape.backends)
    digest = "0" * 64
    program_files = tuple(FileEntry(program.file, "program", digest, 0) for program in programs)
    given = {entry.path for entry in shape.files}
    return from_json(
        to_json(
            Manifest(
                format_version=1,
                kind=shape.kind,  # type: ignore[arg-type]
                source=Source("tiny", None, "tiny", "TinyForCausalLM", True, 0, 1000, shape.vocab),
                recipe=recipe,
                limits=limits,
                speech=shape.speech,
                assistant=None,
                caches=caches,
                programs=programs,
                tokens=TokenRules(
                    shape.vocab, shape.eos, None, shape.start if has_encoder else (), shape.forced,
                    shape.suppress, shape.begin_suppress,
                ),
                generation=GenerationSettings(shape.max_new_tokens),
                quantization="none",
                memory=MemoryPlan(4000, cache_bytes, 2048, planned_bytes, "tables are not counted"),
                packages=(PackageVersion("torch", "2.13.0"),),
                files=tuple(e for e in program_files if e.path not in given) + shape.files,
            )
        )
    )  # fmt: skip


def _caches(shape: BundleShape, max_step: int) -> tuple[CacheEntry, ...]:
    """One full layer, a sliding one when there is a window, a cross one when there is an encoder."""
    reaches = [("full", shape.max_dec)] + ([("sliding", shape.window)] if shape.window else [])
    entries = [(kind, layer, reach, reach + max_step - 1) for layer, (kind, reach) in enumerate(reaches)]
    if shape.kind != "decoder_only":
        entries.append(("cross", 0, shape.max_enc, shape.max_enc))
    return tuple(
        CacheEntry(
            f"{kind}.{layer}", layer, kind, reach, slots, 2, 8, 8, "float32",  # type: ignore[arg-type]
            shape.max_batch * 2 * slots * 16 * 4,
        )
        for kind, layer, reach, slots in entries
    )  # fmt: skip


def _program(shape: BundleShape, backend: str, max_step: int, planned_bytes: int) -> ProgramEntry:
    b, t = Dim("b", 1, shape.max_batch), Dim("t", 1, max_step)
    r, vocab = Dim("r", 1, shape.max_draft + 1), Dim(None, shape.vocab, shape.vocab)
    inputs = [("input_ids", (b, t)), ("positions", (b,)), ("step_lengths", (b,)), ("logit_rows", (b, r))]
    has_encoder = shape.kind != "decoder_only"
    inputs += [("enc_lengths", (b,))] if has_encoder else []
    decode = MethodEntry(
        "decode",
        tuple(TensorEntry(name, "int64", dims) for name, dims in inputs),
        (TensorEntry("logits", "float32", (b, r, vocab)),),
    )
    source = TensorEntry("input_ids", "int64", (b, Dim("e", 1, shape.max_enc)))
    features: tuple[MethodEntry, ...] = ()
    if shape.kind == "speech_seq2seq":
        source = TensorEntry("input_features", "float32", (b, *(Dim(None, size, size) for size in SHAPE)))
    if shape.speech is not None and shape.speech.positions is not None:
        return _sound_program(shape, backend, decode, planned_bytes)
    if shape.speech is not None:
        waveform = TensorEntry("waveform", "float32", (b, Dim(None, shape.speech.samples, shape.speech.samples)))
        features = (MethodEntry("features", (waveform,), (replace(source, name="features"),)),)
    lengths = TensorEntry("lengths", "int64", (b,))
    encode = MethodEntry(
        "encode",
        (source, TensorEntry("enc_lengths", "int64", (b,))),
        (lengths,),
    )
    return ProgramEntry(
        f"model.{backend}.pte", "executorch", backend, "portable", False,
        (*features, encode, decode) if has_encoder else (decode,), planned_bytes, 4000,
    )  # fmt: skip


def _sound_program(shape: BundleShape, backend: str, decode: MethodEntry, planned_bytes: int) -> ProgramEntry:
    """One whose `encode` takes sound in hops."""
    assert shape.speech is not None
    assert shape.speech.positions is not None
    positions, b = shape.speech.positions, Dim("b", 1, shape.max_batch)
    hops = Dim("h", positions.least_hops, positions.hops(shape.speech.samples))
    waveform = TensorEntry("waveform", "float32", (b, hops, Dim(None, positions.stride, positions.stride)))
    lengths = TensorEntry("sample_lengths", "int64", (b,))
    encode = MethodEntry("encode", (waveform, lengths), (TensorEntry("lengths", "int64", (b,)),))
    return ProgramEntry(
        f"model.{backend}.pte", "executorch", backend, "portable", False, (encode, decode), planned_bytes, 4000
    )


def make_bundle(shape: BundleShape | None = None, root: Path = Path("no-such-bundle")) -> Bundle:
    """A bundle object of `shape`; its files need not exist."""
    return Bundle(root, make_manifest(shape or BundleShape()))


def write_bundle(root: Path, shape: BundleShape, contents: Mapping[str, tuple[str, bytes]]) -> Path:
    """A bundle on disk: `contents` maps a path to its role and bytes; hashes and sizes are the real ones."""
    entries = []
    for name, (role, data) in contents.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        digest = hashlib.sha256(data).hexdigest()
        entries.append(FileEntry(name, role, digest, len(data)))  # type: ignore[arg-type]
    manifest = make_manifest(replace(shape, files=tuple(entries)))
    (root / "manifest.json").write_text(to_json(manifest))
    return root


def next_token(history: Sequence[int], source_sum: int = 0) -> int:
    """The token that follows `history` for every program of this file; never EOS."""
    state = 17 + source_sum
    for token in history:
        state = (state * 31 + token + 7) % 9973
    return 2 + state % (VOCAB - 2)


class HistoryProgram:
    """Holds tokens per row and position, and predicts from everything up to the query.

    Logits are 1 at the predicted token, 0.5 at the one after it, and fall off from there, all distinct.
    `fail_next` makes the next call fail as a broken program would.
    """

    def __init__(self, limits: Limits, vocab: int = VOCAB) -> None:
        self.limits = limits
        self.vocab = vocab
        self.held: list[dict[int, int]] = [{} for _ in range(limits.max_batch)]
        self.source_sums = [0] * limits.max_batch
        self.steps: list[list[int]] = []
        self.enc_lengths: list[list[int]] = []
        self.encoded: list[tuple[Tensor, list[int]]] = []
        self.resets = 0
        self.fail_next = False

    def features(self, waveform: Tensor) -> Tensor:
        """The first samples of each row, rounded: what `encode` sums up."""
        self._maybe_fail()
        return waveform[:, : SHAPE[0] * SHAPE[1]].reshape(-1, *SHAPE).round()

    def encode(self, source: Tensor, enc_lengths: Tensor) -> None:
        self._maybe_fail()
        self.encoded.append((source.clone(), enc_lengths.tolist()))
        for row, length in enumerate(enc_lengths.tolist()):
            values = source[row] if source.is_floating_point() else source[row, :length]
            self.source_sums[row] = int(values.sum())

    def decode(self, inputs: StepInputs) -> Tensor:
        self._maybe_fail()
        inputs.check_limits(self.limits)
        lengths = inputs.step_lengths.tolist()
        self.steps.append(lengths)
        if inputs.enc_lengths is not None:
            self.enc_lengths.append(inputs.enc_lengths.tolist())
        logits = torch.full((inputs.rows, inputs.logit_rows.shape[1], self.vocab), float("nan"))
        for row, (position, length) in enumerate(zip(inputs.positions.tolist(), lengths, strict=True)):
            for offset in range(length):
                self._write(row, position + offset, int(inputs.tokens[row, offset]))
            assert not inputs.tokens[row, length:].any(), "padding must be zeros"
            for column, offset in enumerate(inputs.logit_rows[row].tolist()):
                if length:
                    logits[row, column] = self._logits(row, position + offset)
        return logits

    def reset(self) -> None:
        self.resets += 1
        self.fail_next = False
        self.held = [{} for _ in range(self.limits.max_batch)]

    def _write(self, row: int, position: int, token: int) -> None:
        assert 0 <= position < self.limits.max_dec, f"position {position} is outside the capacity"
        self.held[row][position] = token

    def _logits(self, row: int, position: int) -> Tensor:
        best = next_token([self.held[row][p] for p in range(position + 1)], self.source_sums[row])
        order = (torch.arange(VOCAB) - best) % VOCAB
        return 1.0 / (1.0 + order.float())

    def _maybe_fail(self) -> None:
        if self.fail_next:
            raise FixedCapacityError("model.pte: decode failed")


class ScriptedProgram(HistoryProgram):
    """Predicts the script of each row, and fails when it is fed anything that the script does not have."""

    def __init__(self, limits: Limits, scripts: Sequence[Sequence[int]]) -> None:
        super().__init__(limits)
        self.scripts = [list(script) for script in scripts]

    def _write(self, row: int, position: int, token: int) -> None:
        super()._write(row, position, token)
        expected = self.scripts[row][position]
        assert token == expected, f"row {row}, position {position}: fed {token}, the script has {expected}"

    def _logits(self, row: int, position: int) -> Tensor:
        logits = torch.zeros(VOCAB)
        logits[self.scripts[row][position + 1]] = 1.0
        return logits


def history_session(shape: BundleShape | None = None) -> tuple[Session, HistoryProgram]:
    """A session over a fresh HistoryProgram."""
    bundle = make_bundle(shape)
    program = HistoryProgram(bundle.manifest.limits)
    return Session(bundle, program), program


class DraftedProgram(ScriptedProgram):
    """A scripted program that is fed drafts: any token may stand behind the first one of a step.

    What a step finds in its caches, and its first token, must be the script: a rejected draft that was not rolled back,
    or a row that stands at another position than it should, is an error. After a wrong draft the logits mean nothing.
    """

    def decode(self, inputs: StepInputs) -> Tensor:
        starts = zip(inputs.positions.tolist(), inputs.step_lengths.tolist(), strict=True)
        for row, (position, length) in enumerate(starts):
            first = inputs.tokens[row, : min(length, 1)].tolist()
            held = [self.held[row][before] for before in range(position)] + first
            expected = self.scripts[row][: len(held)]
            assert held == expected, f"row {row}, position {position}: holds {held}, the script has {expected}"
        return super().decode(inputs)

    def _write(self, row: int, position: int, token: int) -> None:
        HistoryProgram._write(self, row, position, token)

    def _logits(self, row: int, position: int) -> Tensor:
        held = [self.held[row][before] for before in range(position + 1)]
        if held == self.scripts[row][: position + 1]:
            return super()._logits(row, position)
        return torch.arange(self.vocab).flip(0).float() * 100  # a token that no script has there


def scripted_session(
    scripts: Sequence[Sequence[int]], shape: BundleShape | None = None
) -> tuple[Session, ScriptedProgram]:
    """A session over a ScriptedProgram of `scripts`: per row, prompt and continuation."""
    bundle = make_bundle(shape)
    program = ScriptedProgram(bundle.manifest.limits, scripts)
    return Session(bundle, program), program


def drafted_session(
    scripts: Sequence[Sequence[int]], shape: BundleShape | None = None
) -> tuple[Session, DraftedProgram]:
    """A session over a DraftedProgram of `scripts`: per row, prompt and continuation."""
    bundle = make_bundle(shape)
    program = DraftedProgram(bundle.manifest.limits, scripts)
    return Session(bundle, program), program


def expected_continuation(prompt: Sequence[int], count: int, source_sum: int = 0) -> list[int]:
    """What a HistoryProgram generates greedily after `prompt`, without token rules."""
    history = list(prompt)
    for _ in range(count):
        history.append(next_token(history, source_sum))
    return history[len(prompt) :]
