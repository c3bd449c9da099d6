"""Products and lookups over a model's weights become operators over stored weights: one copy for all of them.

A delegate packs a copy of its own of every weight it multiplies with, at every load; a tied head would be stored
twice. Here each weight is written to the program once, in the layout its product reads (`exporter.weights.layout`), and
serves where the file is mapped: products, the embedding lookup, the head, and every method.

Shape legend: N output features, C inputs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from executorch.backends.transforms.utils import create_constant_placeholder
from torch import Tensor
from torch.fx import Node

from exporter.lower.executorch_forms import copied, stored_tensors
from exporter.trace.trace import ExportedProgram, InputKind
from exporter.weights.half import half_holds
from exporter.weights.layout import WeightLayout, pack_floats, pack_integers
from exporter.weights.operators import operators

_ATEN = torch.ops.aten


@dataclass
class WeightStore:
    """The stored matrices of one program, by the tensors they come from; methods share them.

    A tensor gives its memory back once it is stored: a large model is in memory once, not twice.

    Attributes:
        float_bits: of weights that are not quantized: 32, or 16 for those that lose nothing by it.
    """

    float_bits: int = 32
    packed: dict[int, tuple[Tensor, Tensor, WeightLayout]] = field(default_factory=dict)

    def floats(self, weight: Tensor, *, transposed: bool) -> tuple[Tensor, WeightLayout]:
        """A float matrix `[N, C]` (or `[C, N]`, transposed) as stored, and its layout."""

        def pack() -> tuple[Tensor, WeightLayout]:
            weight_NC = weight.T if transposed else weight
            features, width = weight_NC.shape
            bits = 16 if self.float_bits == 16 and half_holds(weight) else 32
            return pack_floats(weight_NC, bits), WeightLayout(features, width, bits)

        return self._once(weight, pack)

    def integers(self, values_NC: Tensor, scales_NG: Tensor, bits: int, group: int) -> tuple[Tensor, WeightLayout]:
        """An integer matrix and its layout."""

        def pack() -> tuple[Tensor, WeightLayout]:
            features, width = values_NC.shape
            layout = WeightLayout(features, width, bits, group)
            return pack_integers(values_NC, scales_NG, layout), layout

        return self._once(values_NC, pack)

    def _once(self, source: Tensor, pack: Callable[[], tuple[Tensor, WeightLayout]]) -> tuple[Tensor, WeightLayout]:
        if id(source) not in self.packed:
            self.packed[id(source)] = (source, *pack())  # with the source: its id stays its own
            source.data = torch.empty(0, dtype=source.dtype)
        _, packed, layout = self.packed[id(source)]
        return packed, layout


def with_stored_weights(programs: dict[str, ExportedProgram], float_bits: int = 32) -> dict[str, ExportedProgram]:
    """Programs whose products and lookups read stored weights. Takes the weights out of `programs` and their model."""
    store = WeightStore(float_bits)
    kept = {id(weight) for program in programs.values() for weight in weights_read_otherwise(program)}
    kept |= read_both_ways(programs)
    return {name: _stored(program, store, kept) for name, program in programs.items()}


def weights_read_otherwise(program: ExportedProgram) -> list[Tensor]:
    """Stored tensors that some node reads which has no form over stored weights."""
    return [
        tensor
        for node, tensor in stored_tensors(program).items()
        if any(weight_argument(user) is not node for user in node.users)
    ]


def read_both_ways(programs: dict[str, ExportedProgram]) -> set[int]:
    """Ids of tensors that some node reads as `[N, C]` and another as `[C, N]`: they cannot be stored for both."""
    ways: dict[int, set[bool]] = {}
    for program in programs.values():
        for node, tensor in stored_tensors(program).items():
            ways.setdefault(id(tensor), set()).update(user.target == _ATEN.addmm.default for user in node.users)
    return {key for key, found in ways.items() if len(found) > 1}


def weight_argument(node: Node) -> Node | None:
    """The matrix that a product or a lookup reads; None for any other node, and where it is also another operand."""
    ops = operators()
    places = {
        _ATEN.linear.default: 1,
        _ATEN.addmm.default: 2,
        _ATEN.embedding.default: 0,
        ops.quantized_dense.default: 1,
        ops.quantized_embedding.default: 1,
    }
    place = places.get(node.target) if node.op == "call_function" else None
    if place is None or sum(argument is node.args[place] for argument in node.args) > 1:
        return None
    return node.args[place]


def _stored(program: ExportedProgram, store: WeightStore, kept: set[int]) -> ExportedProgram:
    changed = copied(program)
    rewrite = _Rewrite(changed, store, kept)
    for node in list(changed.graph.nodes):
        rewrite.node(node)
    changed.graph.eliminate_dead_code()
    _drop_unused_weights(changed)
    changed.graph_module.recompile()
    return changed


class _Rewrite:
    """One pass over one program."""

    def __init__(self, program: ExportedProgram, store: WeightStore, kept: set[int]) -> None:
        self.program, self.store, self.kept = program, store, kept
        self.stored = stored_tensors(program)
        self.ops = operators()
        self.quantized: dict[tuple[Node, int], Node] = {}

    def node(self, node: Node) -> None:
        """Replace `node` when it reads a weight."""
        rules = {
            _ATEN.linear.default: self._linear,
            _ATEN.addmm.default: self._addmm,
            _ATEN.embedding.default: self._embedding,
            self.ops.quantized_dense.default: self._quantized_linear,
            self.ops.quantized_embedding.default: self._quantized_embedding,
        }
        if node.op == "call_function" and node.target in rules:
            rules[node.target](node)

    def _linear(self, node: Node) -> None:
        source, weight = node.args[:2]
        if self._is_matrix(weight):
            packed, layout = self.store.floats(self.stored[weight], transposed=False)
            bias = node.args[2] if len(node.args) > 2 else None
            self._product(node, source, bias, self._constant(weight, packed), layout)

    def _addmm(self, node: Node) -> None:
        bias, source, weight = node.args[:3]
        if self._is_matrix(weight) and not node.kwargs and bias.meta["val"].dim() == 1:
            packed, layout = self.store.floats(self.stored[weight], transposed=True)
            self._product(node, source, bias, self._constant(weight, packed), layout)

    def _embedding(self, node: Node) -> None:
        weight, indices = node.args[:2]
        if self._is_matrix(weight):
            packed, layout = self.store.floats(self.stored[weight], transposed=False)
            self._lookup(node, indices, self._constant(weight, packed), layout)

    def _quantized_linear(self, node: Node) -> None:
        source, values, scales, bias, bits, group = node.args
        packed, layout = self.store.integers(self.stored[values], self.stored[scales], bits, group)
        rows = self.quantized.get((source, group))
        if rows is None:
            with self.program.graph.inserting_before(node):
                rows = self._call(self.ops.quantize_rows.default, (source, group))
            self.quantized[source, group] = rows
        self._product(node, rows, bias, self._constant(values, packed), layout)

    def _quantized_embedding(self, node: Node) -> None:
        indices, values, scales, bits, group = node.args
        packed, layout = self.store.integers(self.stored[values], self.stored[scales], bits, group)
        self._lookup(node, indices, self._constant(values, packed), layout)

    def _product(self, node: Node, source: Node, bias: Node | None, weight: Node, layout: WeightLayout) -> None:
        arguments = (source, weight, bias, layout.width, layout.features, layout.bits, layout.group)
        self._replace(node, self.ops.dense.default, arguments)

    def _lookup(self, node: Node, indices: Node, weight: Node, layout: WeightLayout) -> None:
        arguments = (indices, weight, layout.width, layout.features, layout.bits, layout.group)
        self._replace(node, self.ops.embed.default, arguments)

    def _replace(self, node: Node, operator, arguments: tuple) -> None:
        with self.program.graph.inserting_before(node):
            call = self._call(operator, arguments)
        call.meta = {key: node.meta[key] for key in ("val", "stack_trace") if key in node.meta}
        node.replace_all_uses_with(call)
        self.program.graph.erase_node(node)

    def _call(self, operator, arguments: tuple) -> Node:
        """A call whose result has the shape that the operator gives it."""
        call = self.program.graph.call_function(operator, arguments)
        values = [argument.meta["val"] if isinstance(argument, Node) else argument for argument in arguments]
        first = next(value for value in values if isinstance(value, Tensor))
        with first.fake_mode:
            call.meta["val"] = operator(*values)
        return call

    def _is_matrix(self, node: object) -> bool:
        """Whether `node` is a float32 weight of two dimensions that nothing else reads."""
        if not isinstance(node, Node):
            return False
        tensor = self.stored.get(node)
        if tensor is None or id(tensor) in self.kept:
            return False
        return node.meta["val"].dim() == 2 and tensor.dtype == torch.float32

    def _constant(self, replaced: Node, packed: Tensor) -> Node:
        """The placeholder of a stored matrix, made at its first use in this program."""
        signature = self.program.graph_signature
        names = signature.inputs_to_parameters | signature.inputs_to_buffers
        name = "stored_" + re.sub(r"\W", "_", names.get(replaced.name, replaced.name))
        graph = self.program.graph
        with graph.inserting_before(next(iter(graph.nodes))):
            return create_constant_placeholder(
                self.program, graph, name, InputKind.BUFFER, packed, persistent_buffer=True
            )


def _drop_unused_weights(program: ExportedProgram) -> None:
    """Remove stored tensors that nothing reads any more, from the graph, its signature and its state."""
    unused = {node for node in stored_tensors(program) if not node.users}
    names = {node.name for node in unused}
    signature = program.graph_signature
    dropped = [spec for spec in signature.input_specs if spec.arg.name in names]
    signature.input_specs[:] = [spec for spec in signature.input_specs if spec.arg.name not in names]
    for node in unused:
        program.graph.erase_node(node)
    kept = {spec.target for spec in signature.input_specs}
    for spec in dropped:
        if spec.target not in kept:
            program._state_dict.pop(spec.target, None)
            program._constants.pop(spec.target, None)
