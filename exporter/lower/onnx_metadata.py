"""What an ONNX graph says about itself to whoever opens it without its bundle: its limits, and what its inputs are."""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes.common import ClearMetadataAndDocStringPass

from exporter.spec.capacity_plan import CapacityPlan
from runtime_shims.contract.onnx_limits import PREFIX, stated_limits

PRODUCER = "fixed-capacity"

_MEANINGS = {
    "input_ids": "token ids; in decode, those of a row past its step length are padding",
    "input_features": "speech features",
    "waveform": "sound, one channel; zeros behind what is shorter",
    "sample_lengths": "samples of each row that are sound",
    "positions": "position of each row's first token: how many tokens the row's caches hold",
    "step_lengths": "tokens of each row that are not padding; 0 leaves a row as it is",
    "logit_rows": "which of the step's tokens to give logits of",
    "enc_lengths": "encoder positions that each row attends to",
    "logits": "of the tokens that logit_rows names; in draft, of what follows input_ids",
    "hidden": "in decode, hidden states behind the logits; in draft, the state of the token before input_ids",
    "next_hidden": "hidden state of input_ids, for the next draft",
    "written_lengths": "encoder positions that were written for each row",
    "features": "speech features: what encode takes",
}
_PAST = "cache of fixed capacity, zeros at first; bind the memory of its present to the same memory"
_PRESENT = "the cache with this step's positions written"


def describe(model: ir.Model, method: str, plan: CapacityPlan) -> None:
    """Name the graph, its limits and the meaning of its inputs and outputs, in place of what the tracer left."""
    ClearMetadataAndDocStringPass()(model)  # stack traces hold paths of this machine
    model.producer_name, model.producer_version = PRODUCER, None
    model.graph.name = method
    model.metadata_props.update(_facts(plan))
    for value in (*model.graph.inputs, *model.graph.outputs):
        value.metadata_props.clear()
        value.doc_string = _meaning(value.name or "")


def _facts(plan: CapacityPlan) -> dict[str, str]:
    """Read by `InferenceSession.get_modelmeta().custom_metadata_map`."""
    names = {f"{PREFIX}model": plan.recipe.model, f"{PREFIX}kind": plan.kind}
    return names | stated_limits(plan.limits(), plan.vocab_size, plan.entries())


def _meaning(name: str) -> str:
    if name.startswith("past_key_values."):
        return _PAST
    return _PRESENT if name.startswith("present.") else _MEANINGS[name]
