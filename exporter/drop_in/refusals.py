"""What a layer refuses to take, and why, in one line."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from runtime_shims.contract.errors import UnsupportedSetting, UserInputError


class Buffered(Protocol):
    """A layer over two buffers: [max_batch, K, S, D]."""

    index: int
    rows: int
    key_buffer: Tensor
    value_buffer: Tensor


def check_states(layer: Buffered, key_states: Tensor, value_states: Tensor) -> None:
    """Raise unless the states, [b, K, T, D] each, are what `layer` was allocated for.

    Raises:
        UnsupportedSetting: other heads, sizes or dtype than the config and `dtype` promised.
        UserInputError: another batch than that of the request that is going on.
    """
    for name, states, buffer in (
        ("keys", key_states, layer.key_buffer),
        ("values", value_states, layer.value_buffer),
    ):
        if _kind(states) != _kind(buffer):
            raise UnsupportedSetting(
                f"layer {layer.index} sends {name} {_shown(states)}, the cache was made for {_shown(buffer)}: make it "
                f"for this model, with the dtype it computes in"
            )
    if layer.rows not in (0, key_states.shape[0]):
        raise UserInputError(
            f"a step of {key_states.shape[0]} batch rows in a request of {layer.rows}: call reset() before a new one"
        )


def _kind(tensor: Tensor) -> tuple[object, ...]:
    return tensor.shape[1], tensor.shape[3], tensor.dtype, tensor.device


def _shown(tensor: Tensor) -> str:
    return f"of {tensor.shape[1]} heads of size {tensor.shape[3]} in {tensor.dtype} on {tensor.device}"
