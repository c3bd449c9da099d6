"""The methods of a program must take and give what the limits say: nothing that a runtime sizes its memory by is
stated twice with two values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runtime_shims.contract.manifest import Dim, Manifest, MethodEntry, ProgramEntry, TensorEntry

DRAFT = "draft"
"""The method of an assistant; it reads caches and writes none."""
FEATURES = "features"
"""The method that makes the encoder's input from a waveform; a program may do without."""
SAMPLE_LENGTHS = "sample_lengths"
"""What `encode` is told of each row where it takes sound of any length, in place of `enc_lengths`."""


@dataclass(frozen=True)
class ExpectedDim:
    """Any size in `minimum`..`maximum`; `source` is the key of the manifest that says so."""

    minimum: int
    maximum: int
    source: str


@dataclass(frozen=True)
class ExpectedTensor:
    """An input or output; `name` is None where the contract leaves it to the model."""

    name: str | None
    dtype: str
    dims: tuple[ExpectedDim, ...]


@dataclass(frozen=True)
class ExpectedMethod:
    """A method that every program of a kind must have, tensors in call order."""

    name: str
    inputs: tuple[ExpectedTensor, ...]
    outputs: tuple[ExpectedTensor, ...]


def method_faults(manifest: Manifest) -> list[str]:
    """Every contradiction between the methods of the programs and the rest of the manifest."""
    expected = expected_methods(manifest)
    faults: list[str] = []
    for index, program in enumerate(manifest.programs):
        path = f"programs[{index}]"
        names = [method.name for method in program.methods]
        faults += repeated(f"{path}.methods, names", names)
        faults += [f'{path}.methods: there is no "{method.name}"' for method in expected if method.name not in names]
        optional = ((FEATURES, "speech", manifest.speech), (DRAFT, "assistant", manifest.assistant))
        faults += [
            f'{path}.methods: there is a "{name}", but {key} is null'
            for name, key, value in optional
            if value is None and name in names
        ]
        if manifest.sound_positions is not None and FEATURES in names:
            faults.append(f'{path}.methods: there is a "{FEATURES}", but speech.positions is given')
        for number, method in enumerate(program.methods):
            method_path = f"{path}.methods[{number}]"
            faults += repeated(f"{method_path}.inputs, names", (tensor.name for tensor in method.inputs))
            faults += repeated(f"{method_path}.outputs, names", (tensor.name for tensor in method.outputs))
        faults += _dim_faults(path, program)
        faults += _signature_faults(path, program, expected)
    return faults


def expected_methods(manifest: Manifest) -> tuple[ExpectedMethod, ...]:
    """What the limits, the vocabulary and the kind say about the methods of a program.

    The graphs of an ONNX program also take and return caches, as `onnx_names.py` says; they are not listed again.

    `features` is optional: every program has it when `speech` is given without `positions`, and none otherwise.
    """
    limits = manifest.limits
    rows = ExpectedDim(1, limits.max_batch, "limits.max_batch")
    step = ExpectedDim(1, limits.max_step, "limits.max_step")
    logit_rows = ExpectedDim(1, limits.max_logit_rows, "limits.max_logit_rows")
    words = ExpectedDim(manifest.tokens.vocab_size, manifest.tokens.vocab_size, "tokens.vocab_size")
    index = manifest.recipe.index_dtype
    lengths = ExpectedTensor("enc_lengths", index, (rows,))
    inputs = (
        ExpectedTensor("input_ids", index, (rows, step)),
        ExpectedTensor("positions", index, (rows,)),
        ExpectedTensor("step_lengths", index, (rows,)),
        ExpectedTensor("logit_rows", index, (rows, logit_rows)),
    )
    logits = ExpectedTensor("logits", "float32", (rows, logit_rows, words))
    if manifest.kind == "decoder_only" and manifest.assistant is not None:
        return _assisted(manifest.assistant.hidden_size, inputs, logits)
    if manifest.kind == "decoder_only":
        return (ExpectedMethod("decode", inputs, (logits,)),)
    written = ExpectedTensor(None, index, (rows,))
    source, sound = _source(manifest, rows), manifest.speech
    follows_sound = manifest.sound_positions is not None
    source_lengths = replace(lengths, name=SAMPLE_LENGTHS) if follows_sound else lengths
    encode = ExpectedMethod("encode", (source, source_lengths), (written,))
    decode = ExpectedMethod("decode", (*inputs, lengths), (logits,))
    if sound is None or follows_sound:
        return (encode, decode)
    samples = ExpectedDim(sound.samples, sound.samples, "speech.samples")
    waveform = ExpectedTensor("waveform", "float32", (rows, samples))
    return (ExpectedMethod(FEATURES, (waveform,), (replace(source, name="features"),)), encode, decode)


def _assisted(
    width: int, inputs: tuple[ExpectedTensor, ...], logits: ExpectedTensor
) -> tuple[ExpectedMethod, ExpectedMethod]:
    """`decode` and `draft` of a model with an assistant, and the hidden states that they exchange."""
    tokens, positions, step_lengths, _ = inputs
    rows, logit_rows, words = logits.dims
    one = ExpectedDim(1, 1, "one token per row")
    states = ExpectedDim(width, width, "assistant.hidden_size")
    last = ExpectedTensor("hidden", "float32", (rows, states))
    decode = ExpectedMethod("decode", inputs, (logits, replace(last, dims=(rows, logit_rows, states))))
    token = replace(tokens, dims=(rows, one))
    drafted = (replace(logits, dims=(rows, one, words)), replace(last, name="next_hidden"))
    return decode, ExpectedMethod(DRAFT, (token, last, positions, step_lengths), drafted)


def _source(manifest: Manifest, rows: ExpectedDim) -> ExpectedTensor:
    """The encoder's input; a limit that is missing is a fault of the kind and bounds nothing here."""
    limits = manifest.limits
    if manifest.speech is not None and manifest.speech.positions is not None:
        positions, samples = manifest.speech.positions, manifest.speech.samples
        hops = ExpectedDim(positions.least_hops, positions.hops(samples), "hops of speech.samples")
        hop = ExpectedDim(positions.stride, positions.stride, "speech.positions.stride")
        return ExpectedTensor("waveform", "float32", (rows, hops, hop))
    if manifest.kind == "speech_seq2seq":
        shape = (ExpectedDim(size, size, "limits.source_shape") for size in limits.source_shape or ())
        return ExpectedTensor(None, "float32", (rows, *shape))
    places = ExpectedDim(1, limits.max_enc or 1, "limits.max_enc")
    return ExpectedTensor(None, manifest.recipe.index_dtype, (rows, places))


def repeated(path: str, values: Iterable[Hashable]) -> list[str]:
    """One fault for each value that is listed more than once."""
    return [f"{path}: {value!r} is listed {n} times" for value, n in Counter(values).items() if n > 1]


def _dim_faults(path: str, program: ProgramEntry) -> list[str]:
    """Bounds are in order, a static dimension has one size, and a name means one range per program."""
    faults: list[str] = []
    ranges: dict[str, tuple[int, int]] = {}
    for method in program.methods:
        for tensor in (*method.inputs, *method.outputs):
            for axis, dim in enumerate(tensor.dims):
                place = f"{path}, {method.name}, {tensor.name}, dim {axis}"
                bounds = (dim.minimum, dim.maximum)
                if dim.minimum > dim.maximum:
                    faults.append(f"{place}: minimum {dim.minimum} is above maximum {dim.maximum}")
                elif dim.name is None and dim.minimum != dim.maximum:
                    faults.append(f"{place}: a dimension of several sizes needs a name")
                elif dim.name is not None and ranges.setdefault(dim.name, bounds) != bounds:
                    faults.append(f"{place}: {dim.name} is {bounds}, but {ranges[dim.name]} before")
    return faults


def _signature_faults(path: str, program: ProgramEntry, expected: tuple[ExpectedMethod, ...]) -> list[str]:
    methods: dict[str, MethodEntry] = {method.name: method for method in program.methods}
    faults = []
    for wanted in expected:
        method = methods.get(wanted.name)
        if method is not None:
            place = f"{path}, {method.name}"
            faults += _list_faults(f"{place}, inputs", method.inputs, wanted.inputs)
            faults += _list_faults(f"{place}, outputs", method.outputs, wanted.outputs)
    return faults


def _list_faults(path: str, tensors: tuple[TensorEntry, ...], expected: tuple[ExpectedTensor, ...]) -> list[str]:
    if len(tensors) != len(expected):
        return [f"{path}: expected {len(expected)}, got {len(tensors)}"]
    faults = []
    for index, (tensor, wanted) in enumerate(zip(tensors, expected, strict=True)):
        if wanted.name is not None and tensor.name != wanted.name:
            faults.append(f"{path}: expected {wanted.name} in place {index}, got {tensor.name}")
            continue
        place = f"{path.rpartition(', ')[0]}, {tensor.name}"
        if tensor.dtype != wanted.dtype:
            faults.append(f"{place}: expected {wanted.dtype}, got {tensor.dtype}")
        if len(tensor.dims) != len(wanted.dims):
            faults.append(f"{place}: expected {len(wanted.dims)} dims, got {len(tensor.dims)}")
            continue
        faults += _bound_faults(place, tensor.dims, wanted.dims)
    return faults


def _bound_faults(place: str, dims: tuple[Dim, ...], expected: tuple[ExpectedDim, ...]) -> list[str]:
    return [
        f"{place}, dim {axis}: expected {_sizes(wanted)} ({wanted.source}), got {_sizes(dim)}"
        for axis, (dim, wanted) in enumerate(zip(dims, expected, strict=True))
        if (dim.minimum, dim.maximum) != (wanted.minimum, wanted.maximum)
    ]


def _sizes(dim: Dim | ExpectedDim) -> str:
    return str(dim.maximum) if dim.minimum == dim.maximum else f"{dim.minimum} to {dim.maximum}"
