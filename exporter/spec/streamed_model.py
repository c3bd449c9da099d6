"""A model without its large weights, and where each of them is read from, some rows at a time.

What only needs a weight to make something smaller of it (integers) then never holds the model in float32: a
checkpoint's weights stay in their mapped file, and random ones are drawn as they are asked for.

Shape legend: N rows, C the other dimensions of a weight.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from exporter.spec.model_spec import ModelSpec
from exporter.spec.parameters import auto_class
from exporter.spec.text_part import drop_image_tower
from exporter.spec.weights import untie_head

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import PretrainedConfig, PreTrainedModel

ROWS_AT_ONCE = 4096
_SPREAD = 0.02
LARGE = 1 << 31
"""Random weights of models with more values than this are drawn as they are asked for."""


@dataclass(frozen=True)
class WeightRows:
    """A weight `[N, ...]` that is not in memory.

    Attributes:
        empty: the parameter without memory that stands for it in a model.
        read: float32 rows `[stop - start, ...]` from `start` to `stop`.
    """

    empty: Tensor
    read: Callable[[int, int], Tensor]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.empty.shape)

    def parts(self) -> Iterator[Tensor]:
        """All rows in order, `ROWS_AT_ONCE` at a time."""
        rows = self.shape[0]
        for start in range(0, rows, ROWS_AT_ONCE):
            yield self.read(start, min(start + ROWS_AT_ONCE, rows))

    def whole(self) -> Tensor:
        """float32 `[N, ...]`."""
        return self.read(0, self.shape[0])


@dataclass(frozen=True)
class StreamedModel:
    """A model in evaluation mode, without gradients; its weights in `rows` are on PyTorch's "meta" device.

    Attributes:
        rows: by id of the parameter.
    """

    model: PreTrainedModel
    rows: dict[int, WeightRows] = field(default_factory=dict)

    def read_rest(self) -> None:
        """Bring every weight that is still a part of the model into memory."""
        replace_parameters(
            self.model, {key: self.rows[key].whole() for key in map(id, self.model.parameters()) if key in self.rows}
        )


def of_loaded(config: PretrainedConfig, spec: ModelSpec, loaded: PreTrainedModel) -> StreamedModel | None:
    """The float32 model of a checkpoint whose weights lie as they are in `loaded`; None where the two differ.

    They differ where transformers ties weights for one of them only.
    """
    import torch

    empty = _empty(config, spec)
    stored = dict(loaded.named_parameters())
    if list(stored) != [name for name, _ in empty.named_parameters()]:
        return None
    small: dict[int, Tensor] = {}
    rows: dict[int, WeightRows] = {}
    for name, parameter in empty.named_parameters():
        if parameter.dim() > 1:
            rows[id(parameter)] = _stored_rows(parameter, stored[name].detach())
        else:
            small[id(parameter)] = stored[name].detach().float()
    replace_parameters(empty, small)
    saved = loaded.state_dict()
    with torch.no_grad():
        for name, buffer in empty.named_buffers():
            if name in saved:  # those that are not saved have been computed in float32
                buffer.copy_(saved[name])
    empty.generation_config = loaded.generation_config
    return StreamedModel(_finished(empty), rows)


def of_random(config: PretrainedConfig, spec: ModelSpec, seed: int) -> StreamedModel:
    """A model whose weights depend on `config` and `seed` only; matrices are normal around 0."""
    import torch

    model = _empty(config, spec)
    if not spec.tied_embeddings:
        untie_head(model)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    small = {id(one): torch.zeros(one.shape) for one in model.parameters() if one.dim() <= 1}
    replace_parameters(model, small)
    for module in model.modules():
        if any(not parameter.is_meta for parameter in module.parameters(recurse=False)):
            model._init_weights(module)  # what is no matrix has its usual value
    rows = {
        id(parameter): _drawn_rows(parameter, f"{seed} {names[id(parameter)]}")
        for parameter in model.parameters()
        if parameter.is_meta
    }
    return StreamedModel(_finished(model), rows)


def replace_parameters(model: nn.Module, values: dict[int, Tensor]) -> None:
    """Give the parameters with these ids new values, wherever the model holds them."""
    from torch import nn

    made = {key: nn.Parameter(value, requires_grad=False) for key, value in values.items()}
    for module in model.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None and id(parameter) in made:
                module._parameters[name] = made[id(parameter)]


def _empty(config: PretrainedConfig, spec: ModelSpec) -> PreTrainedModel:
    """The float32 model without weights; its buffers are there."""
    import torch
    from accelerate import init_empty_weights

    with init_empty_weights(include_buffers=False):
        model: PreTrainedModel = auto_class(spec.kind).from_config(config, dtype=torch.float32)
    drop_image_tower(model)
    model.tie_weights()  # the context gives every module a parameter of its own
    return model


def _finished(model: PreTrainedModel) -> PreTrainedModel:
    finished: PreTrainedModel = model.eval().requires_grad_(False)
    return finished


def _stored_rows(empty: Tensor, weight: Tensor) -> WeightRows:
    return WeightRows(empty, lambda start, stop: weight[start:stop].float())


def _drawn_rows(empty: Tensor, name: str) -> WeightRows:
    """Rows that depend on the name and their place only, however they are cut at multiples of `ROWS_AT_ONCE`."""
    import torch

    def part(start: int, stop: int) -> Tensor:
        numbers = torch.Generator().manual_seed(zlib.crc32(f"{name} {start}".encode()))
        return torch.empty((stop - start, *empty.shape[1:])).normal_(0.0, _SPREAD, generator=numbers)

    def read(start: int, stop: int) -> Tensor:
        cuts = range(start, stop, ROWS_AT_ONCE)
        return torch.cat([part(cut, min(cut + ROWS_AT_ONCE, stop)) for cut in cuts])

    return WeightRows(empty, read)
