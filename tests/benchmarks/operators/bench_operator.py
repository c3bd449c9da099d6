"""Times the C++ attention kernels at shapes of real models; the answer is checked before it is timed.

    python tests/benchmarks/operators/bench_operator.py [--seconds 0.3]

Prints one JSON object. `gb_per_s` counts the key and value bytes that the queries must see; `gflop_per_s`
counts two operations per multiply-add of visible pairs. Times are those of the fastest of ten batches;
key/value caches stay in the processor's cache where they fit. Use an idle machine.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from exporter.cache.stored_states import as_floats, as_stored
from runtime_shims import native
from runtime_shims.contract.cache_types import position_bytes

TOLERANCE = 1e-4
CACHE_TYPES = ("float32", "float16", "int8")


@dataclass(frozen=True)
class Shape:
    """A self-attention step: K key/value heads, G query heads for each, head size D, over a ring of slots."""

    model: str
    kv_heads: int
    groups: int
    head_size: int
    slots: int
    window: int | None = None


STEPS = [
    (Shape("gemma3-270m full layer", 1, 4, 256, 2048), (1, 2, 5, 128), (10, 100, 1000, 1900)),
    (Shape("gemma3-270m sliding layer", 1, 4, 256, 640, 512), (1, 5, 128), (10, 500, 5000)),
    (Shape("smollm2-135m", 3, 3, 64, 8192), (1, 5, 128), (10, 100, 1000, 8000)),
    (Shape("t5-small decoder", 8, 1, 64, 512), (1, 5), (10, 500)),
]
ENCODERS = [("whisper-tiny encoder", 6, 64, 1500), ("t5-small encoder", 8, 64, 512)]


def seconds_per_call(call: Callable[[], object], budget: float) -> float:
    """Seconds of one call in the fastest of ten batches that together fill `budget` seconds."""
    call()
    start = time.perf_counter()
    call()
    per_batch = max(1, int(budget / 10 / max(time.perf_counter() - start, 1e-6)))
    samples = []
    for _ in range(10):
        start = time.perf_counter()
        for _ in range(per_batch):
            call()
        samples.append((time.perf_counter() - start) / per_batch)
    return min(samples)


def visible_pairs(shape: Shape, fill: int, step_tokens: int) -> int:
    reach = shape.window or fill + step_tokens
    return sum(min(position + 1, reach) for position in range(fill, fill + step_tokens))


def reference_step(shape: Shape, tensors: dict[str, Tensor], fill: int) -> Tensor:
    """torch's attention over the same keys, gathered into position order; `[1, T, H, D]`."""
    step_tokens = tensors["query"].shape[2]
    end = fill + step_tokens
    positions = torch.arange(max(0, end - shape.slots), end)
    queries = torch.arange(fill, end)[:, None]
    visible = (positions <= queries) & (queries - positions < (shape.window or end))
    caches = (as_floats(tensors[name]) for name in ("key_cache", "value_cache"))
    keys, values = (cache[:, :, positions % shape.slots] for cache in caches)
    out = scaled_dot_product_attention(tensors["query"], keys, values, visible, enable_gqa=True)
    return out.transpose(1, 2)


def bench_step(shape: Shape, step_tokens: int, fill: int, cache_type: str, budget: float) -> dict[str, object]:
    dtype: torch.dtype = getattr(torch, cache_type)
    heads, size = shape.kv_heads * shape.groups, shape.head_size
    tensors = {
        "query": torch.randn(1, heads, step_tokens, size),
        "key": torch.randn(1, shape.kv_heads, step_tokens, size),
        "value": torch.randn(1, shape.kv_heads, step_tokens, size),
        "key_cache": as_stored(torch.randn(1, shape.kv_heads, shape.slots, size), dtype),
        "value_cache": as_stored(torch.randn(1, shape.kv_heads, shape.slots, size), dtype),
    }
    positions, lengths = torch.tensor([fill]), torch.tensor([step_tokens])

    call = native.bind_cached_attention(
        *tensors.values(), positions, lengths, None, 0, shape.window, size**-0.5, None
    )
    torch.testing.assert_close(call(), reference_step(shape, tensors, fill), atol=TOLERANCE, rtol=TOLERANCE)
    seconds = seconds_per_call(call, budget)
    seen = min(fill + step_tokens, shape.slots, (shape.window or fill) + step_tokens)
    return {
        "shape": shape.model, "cache": cache_type, "step_tokens": step_tokens, "fill": fill,
        "microseconds": round(seconds * 1e6, 1),
        "gb_per_s": round(seen * shape.kv_heads * 2 * position_bytes(cache_type, size) / seconds / 1e9, 2),
        "gflop_per_s": round(visible_pairs(shape, fill, step_tokens) * heads * size * 4 / seconds / 1e9, 1),
    }


def bench_encoder(model: str, heads: int, size: int, places: int, budget: float) -> dict[str, object]:
    query, key, value = (torch.randn(1, heads, places, size) for _ in range(3))
    lengths = torch.tensor([places])

    def call() -> Tensor:
        return native.encoder_attention(query, key, value, lengths, None, 0, size**-0.5, None)

    def torch_call() -> Tensor:
        return scaled_dot_product_attention(query, key, value)

    torch.testing.assert_close(call(), torch_call().transpose(1, 2), atol=TOLERANCE, rtol=TOLERANCE)
    seconds, torch_seconds = seconds_per_call(call, budget), seconds_per_call(torch_call, budget)
    return {
        "shape": model, "places": places, "milliseconds": round(seconds * 1e3, 2),
        "torch_sdpa_milliseconds": round(torch_seconds * 1e3, 2),
        "gflop_per_s": round(places * places * heads * size * 4 / seconds / 1e9, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=0.3, help="time per measurement")
    budget: float = parser.parse_args().seconds
    torch.manual_seed(0)
    rows = [
        bench_step(shape, step_tokens, fill, cache_type, budget)
        for shape, widths, fills in STEPS for step_tokens in widths for fill in fills for cache_type in CACHE_TYPES
        if fill + step_tokens <= shape.slots or shape.window
    ]
    encoders = [bench_encoder(*encoder, budget) for encoder in ENCODERS]
    machine = {"processor": platform.machine(), "kernel_variant": native.kernel_variant(),
               "torch_threads": torch.get_num_threads()}
    print(json.dumps({"machine": machine, "steps": rows, "encoders": encoders}, indent=1))


if __name__ == "__main__":
    main()
