"""The methods of a program: names, inputs, and how far each input may grow.

Every program of every model is driven by these shapes; the manifest repeats them, the runtimes check against them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from exporter.models.speech_features import FrontEnd
from exporter.spec.capacity_plan import CapacityPlan
from runtime_shims.contract.method_rules import SAMPLE_LENGTHS


@dataclass(frozen=True)
class Axis:
    """A dimension of an input: a name, a maximum and a minimum when it may vary, else one size."""

    name: str | None
    maximum: int
    minimum: int = 1

    @property
    def is_dynamic(self) -> bool:
        return self.name is not None and self.maximum > self.minimum

    @property
    def sample(self) -> int:
        """A size in the middle of what may be; never the smallest, which the tracer would take for the only one."""
        return max(self.minimum + 1, self.maximum // 2) if self.is_dynamic else self.maximum


@dataclass(frozen=True)
class MethodInput:
    """One input tensor. `largest_value` bounds sample values so that a trace never reads past a table."""

    name: str
    dtype: torch.dtype
    axes: tuple[Axis, ...]

    def sample(self) -> Tensor:
        """A contiguous tensor of mid-range dynamic sizes; non-contiguous samples would add stride guards."""
        sizes = [axis.sample for axis in self.axes]
        if self.dtype.is_floating_point:
            return torch.zeros(sizes, dtype=self.dtype)
        return (
            torch.ones(sizes, dtype=self.dtype)
            if self.name.endswith("lengths")
            else torch.zeros(sizes, dtype=self.dtype)
        )


@dataclass(frozen=True)
class Method:
    """A method's name, its inputs in call order, and its outputs."""

    name: str
    inputs: tuple[MethodInput, ...]
    outputs: tuple[MethodInput, ...]


def program_methods(plan: CapacityPlan, front_end: FrontEnd | None = None) -> tuple[Method, ...]:
    """The methods of a program for this plan, in the order they are exported; `features` where there is a front end."""
    rows, index = Axis("b", plan.max_batch), index_dtype(plan)
    decode_inputs = [
        MethodInput("input_ids", index, (rows, Axis("t", plan.max_step))),
        MethodInput("positions", index, (rows,)),
        MethodInput("step_lengths", index, (rows,)),
        MethodInput("logit_rows", index, (rows, Axis("r", plan.max_logit_rows))),
    ]
    logits = MethodInput("logits", torch.float32, (rows, Axis("r", plan.max_logit_rows), Axis(None, plan.vocab_size)))
    if plan.kind == "decoder_only" and plan.assistant is not None:
        return _assisted(plan.assistant.hidden_size, tuple(decode_inputs), logits)
    if plan.kind == "decoder_only":
        return (Method("decode", tuple(decode_inputs), (logits,)),)
    enc_lengths = MethodInput("enc_lengths", index, (rows,))
    written = MethodInput("written_lengths", index, (rows,))
    source_lengths = enc_lengths if plan.sound is None else replace(enc_lengths, name=SAMPLE_LENGTHS)
    encode = Method("encode", (_source(plan, rows), source_lengths), (written,))
    decode = Method("decode", (*decode_inputs, enc_lengths), (logits,))
    return (encode, decode) if front_end is None else (_features(plan, front_end, rows), encode, decode)


def _assisted(width: int, inputs: tuple[MethodInput, ...], logits: MethodInput) -> tuple[Method, ...]:
    """`decode` and `draft` of a model with an assistant, `width` being that of the hidden states they exchange."""
    tokens, positions, step_lengths, _ = inputs
    rows = positions.axes[0]
    states, one = Axis(None, width), Axis(None, 1)
    hidden = MethodInput("hidden", torch.float32, (*logits.axes[:2], states))
    last = MethodInput("hidden", torch.float32, (rows, states))
    drafted = (replace(logits, axes=(rows, one, logits.axes[2])), replace(last, name="next_hidden"))
    token = replace(tokens, axes=(rows, one))
    return (
        Method("decode", inputs, (logits, hidden)),
        Method("draft", (token, last, positions, step_lengths), drafted),
    )


def index_dtype(plan: CapacityPlan) -> torch.dtype:
    """The type in which the methods take token ids, positions and lengths; the modules themselves take int64."""
    return getattr(torch, plan.recipe.index_dtype)


def _features(plan: CapacityPlan, front_end: FrontEnd, rows: Axis) -> Method:
    waveform = MethodInput("waveform", torch.float32, (rows, Axis(None, front_end.samples)))
    return Method("features", (waveform,), (replace(_source(plan, rows), name="features"),))


def _source(plan: CapacityPlan, rows: Axis) -> MethodInput:
    if plan.speech is not None and plan.sound is not None:
        positions = plan.sound.positions
        hops = Axis("h", positions.hops(plan.speech.samples), positions.least_hops)
        return MethodInput("waveform", torch.float32, (rows, hops, Axis(None, positions.stride)))
    if plan.source_shape is None:
        return MethodInput("input_ids", index_dtype(plan), (rows, Axis("e", plan.max_enc or 1)))
    return MethodInput("input_features", torch.float32, (rows, *(Axis(None, size) for size in plan.source_shape)))
