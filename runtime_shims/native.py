"""The C++ operator library: where it is, how it joins the runtime, and its operators as Python functions.

Loading the library registers the operators `fixed_capacity::*.out` with the ExecuTorch runtime of this
process; programs exported with `--attention fused` need that before they are loaded. The functions below call
the same kernels directly on torch tensors; they exist for tests and measurements. Products with stored weights:
`native_linear.py`.

Shape legend: B cache rows, b live rows, T step tokens, S slots, E encoder positions, H query heads,
K key/value heads, D key size, Dv value size, N entries of a bias table.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from runtime_shims.contract.cache_types import tail_elements
from runtime_shims.contract.errors import UnsupportedSetting

if TYPE_CHECKING:
    from torch import Tensor

_FILE = Path("_native") / ("libfixed_capacity_ops" + (".dylib" if sys.platform == "darwin" else ".so"))


def operator_library_path() -> Path | None:
    """The installed operator library, or None when this installation was made without it."""
    candidates = [Path(__file__).parent / _FILE]
    try:  # a development install keeps the library with the distribution, not in the source tree
        installed = metadata.distribution("fixed-capacity").locate_file(Path("runtime_shims") / _FILE)
        candidates.append(Path(str(installed)))
    except metadata.PackageNotFoundError:
        pass
    return next((path for path in candidates if path.is_file()), None)


@cache
def load_operator_library() -> Path:
    """Register the operators with this process's ExecuTorch runtime, once; returns the library's path.

    Raises UnsupportedSetting when the library is not installed or does not load.
    """
    path = operator_library_path()
    if path is None:
        raise UnsupportedSetting(
            "the C++ operator library is not installed, so programs with fused attention cannot run; "
            "reinstall with a C++20 compiler and the executorch package present, or export with "
            "--attention portable"
        )
    open_library(path)
    return path


@cache
def open_library(path: Path) -> ctypes.CDLL:
    """The loaded library, with the result types of its functions declared."""
    # The runtime's own library must be in the process first: both then share one operator registry. The
    # extension module is imported itself: its wrapper imports the exporter, which takes seconds.
    import torch  # noqa: F401 - the extension module needs its libraries
    from executorch.extension.pybindings import _C  # noqa: F401

    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise UnsupportedSetting(
            f"the C++ operator library {path} does not load ({error}); reinstall fixed-capacity so that it "
            "is built against the installed executorch package"
        ) from error
    library.fixed_capacity_last_refusal.restype = ctypes.c_char_p
    library.fixed_capacity_kernel_variant.restype = ctypes.c_char_p
    return library


def kernel_variant() -> str:
    """The instruction set whose kernels this processor runs: x86-64-v4+vnni, x86-64-v4, x86-64-v3 or another."""
    name: bytes = open_library(load_operator_library()).fixed_capacity_kernel_variant()
    return name.decode()


def share_packed_weights() -> None:
    """Let XNNPACK keep one packed copy of the weights for all methods of a program loaded from now on.

    Raises UnsupportedSetting when the library is not installed or the backend refuses.
    """
    if open_library(load_operator_library()).fixed_capacity_share_packed_weights() != 0:
        raise UnsupportedSetting("the XNNPACK backend refused to share packed weights between methods")


class _TensorView(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("rank", ctypes.c_int32),
        ("cache_type", ctypes.c_int32),
        ("sizes", ctypes.c_int64 * 4),
    )


class _Options(ctypes.Structure):
    _fields_ = (
        ("bias_table", ctypes.POINTER(_TensorView)),
        ("bias_origin", ctypes.c_int64),
        ("window", ctypes.POINTER(ctypes.c_int64)),
        ("scale", ctypes.c_double),
        ("softcap", ctypes.POINTER(ctypes.c_double)),
        ("sinks", ctypes.POINTER(_TensorView)),
    )


@dataclass(frozen=True)
class _Settings:
    """The arguments of an attention that are not tensors of the step."""

    scale: float
    softcap: float | None
    bias_table: Tensor | None = None
    bias_origin: int = 0
    window: int | None = None
    sinks: Tensor | None = None


_CACHE_TYPES = {"float32": 0, "float16": 1, "int8": 2}


def _view(tensor: Tensor, *dtype_names: str) -> _TensorView:
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in dtype_names or not tensor.is_contiguous() or tensor.device.type != "cpu":
        raise ValueError(
            f"the kernels take contiguous {' or '.join(dtype_names)} tensors on the CPU; got {tensor.dtype} on "
            f"{tensor.device} with shape {tuple(tensor.shape)} and strides {tensor.stride()}"
        )
    sizes = (ctypes.c_int64 * 4)(*tensor.shape[:4])
    return _TensorView(tensor.data_ptr(), tensor.dim(), _CACHE_TYPES.get(name, 0), sizes)


def _bind(function: str, floats: list[Tensor], caches: list[Tensor], indices: list[Tensor], out: Tensor,
          settings: _Settings | None) -> Callable[[], Tensor]:
    """One C function with its tensors converted once; each call returns `out`.

    Caches may be float16 or int8. A call raises ValueError, with nothing written, when the function refuses its
    arguments.
    """
    library = open_library(load_operator_library())
    views = [_view(tensor, "float32") for tensor in floats]
    views += [_view(tensor, *_CACHE_TYPES) for tensor in caches]
    views += [_view(tensor, "int64") for tensor in indices]
    views.append(_view(out, str(out.dtype).removeprefix("torch.")))
    arguments: list[object] = [(_TensorView * len(views))(*views)]
    if settings is not None:
        table = None if settings.bias_table is None else ctypes.pointer(_view(settings.bias_table, "float32"))
        window = None if settings.window is None else ctypes.pointer(ctypes.c_int64(settings.window))
        softcap = None if settings.softcap is None else ctypes.pointer(ctypes.c_double(settings.softcap))
        sinks = None if settings.sinks is None else ctypes.pointer(_view(settings.sinks, "float32"))
        options = _Options(table, settings.bias_origin, window, settings.scale, softcap, sinks)
        arguments.append(ctypes.byref(options))
    kernel = getattr(library, f"fixed_capacity_{function}")

    def call(_kept_alive: tuple[object, ...] = (*floats, *caches, *indices, settings)) -> Tensor:
        if kernel(*arguments) != 0:
            reason: bytes = library.fixed_capacity_last_refusal()
            raise ValueError(f"{function}: {reason.decode()}")
        return out

    return call


def _attention_output(query: Tensor, values: Tensor, tail: int = 0) -> Tensor:
    if query.dim() != 4 or values.dim() != 4:
        raise ValueError(f"queries and values must have 4 dimensions, got {query.dim()} and {values.dim()}")
    batch, heads, step_tokens = query.shape[:3]
    return query.new_empty((batch, step_tokens, heads, values.shape[3] - tail))


def bind_cached_attention(query: Tensor, key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor,
                          positions: Tensor, step_lengths: Tensor, bias_table: Tensor | None,
                          bias_origin: int, window: int | None, scale: float,
                          softcap: float | None, sinks: Tensor | None = None) -> Callable[[], Tensor]:
    """`cached_attention` on these tensors, to be called repeatedly without converting them each time."""
    settings = _Settings(scale, softcap, bias_table, bias_origin, window, sinks)
    caches, indices = [key_cache, value_cache], [positions, step_lengths]
    out = _attention_output(query, value)
    return _bind("cached_attention", [query, key, value], caches, indices, out, settings)


def cached_attention(query: Tensor, key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor,
                     positions: Tensor, step_lengths: Tensor, bias_table: Tensor | None, bias_origin: int,
                     window: int | None, scale: float, softcap: float | None,
                     sinks: Tensor | None = None) -> Tensor:
    """`fixed_capacity::cached_attention`: writes the step into the caches and attends.

    query `[b, H, T, D]`, key `[b, K, T, D]`, value `[b, K, T, Dv]`, caches `[B, K, S, D]` and
    `[B, K, S, Dv]`, float32 or float16, or int8 with 4 bytes of scale behind each position, positions and
    step_lengths int64 `[b]`, sinks float32 `[H]`; returns float32 `[b, T, H, Dv]`. Raises ValueError when refused.
    """
    return bind_cached_attention(
        query, key, value, key_cache, value_cache, positions, step_lengths, bias_table, bias_origin, window,
        scale, softcap, sinks,
    )()


def shared_attention(query: Tensor, key_cache: Tensor, value_cache: Tensor, positions: Tensor, step_lengths: Tensor,
                     bias_table: Tensor | None, bias_origin: int, window: int | None, scale: float,
                     softcap: float | None) -> Tensor:
    """`fixed_capacity::shared_attention`: attends as `cached_attention` does, over caches that were written before."""
    caches, tail = [key_cache, value_cache], tail_elements(str(value_cache.dtype).removeprefix("torch."))
    out = _attention_output(query, value_cache, tail)
    settings = _Settings(scale, softcap, bias_table, bias_origin, window)
    return _bind("shared_attention", [query], caches, [positions, step_lengths], out, settings)()


def cross_attention(query: Tensor, key_cache: Tensor, value_cache: Tensor, lengths: Tensor, scale: float,
                    softcap: float | None) -> Tensor:
    """`fixed_capacity::cross_attention`: attends over the first `lengths[i]` slots of row i."""
    caches, tail = [key_cache, value_cache], tail_elements(str(value_cache.dtype).removeprefix("torch."))
    out = _attention_output(query, value_cache, tail)
    return _bind("cross_attention", [query], caches, [lengths], out, _Settings(scale, softcap))()


def merged_attention(query: Tensor, key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor,
                     cross_key_cache: Tensor, cross_value_cache: Tensor, positions: Tensor, step_lengths: Tensor,
                     cross_lengths: Tensor, window: int | None, scale: float, softcap: float | None) -> Tensor:
    """`fixed_capacity::merged_attention`: `cached_attention`, whose softmax also takes an encoder's keys.

    cross caches `[B, K, E, D]` and `[B, K, E, Dv]`, of which row i sees the first `cross_lengths[i]` slots.
    """
    caches = [key_cache, value_cache, cross_key_cache, cross_value_cache]
    indices, settings = [positions, step_lengths, cross_lengths], _Settings(scale, softcap, window=window)
    return _bind("merged_attention", [query, key, value], caches, indices, _attention_output(query, value), settings)()


def encoder_attention(query: Tensor, key: Tensor, value: Tensor, lengths: Tensor, bias_table: Tensor | None,
                      bias_origin: int, scale: float, softcap: float | None) -> Tensor:
    """`fixed_capacity::encoder_attention`: bidirectional within the first `lengths[i]` positions."""
    floats, settings = [query, key, value], _Settings(scale, softcap, bias_table, bias_origin)
    return _bind("encoder_attention", floats, [], [lengths], _attention_output(query, value), settings)()


def write_cross(key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor,
                lengths: Tensor) -> Tensor:
    """`fixed_capacity::write_cross`: writes the live positions; returns a copy of `lengths`."""
    out = lengths.new_empty(lengths.shape)
    return _bind("write_cross", [key, value], [key_cache, value_cache], [lengths], out, None)()
