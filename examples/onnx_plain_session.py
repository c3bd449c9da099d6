"""An ONNX bundle's decoder in plain ONNX Runtime: greedy tokens of one prompt, without this project.

    export-model MODEL --backend onnx -o my.bundle
    python examples/onnx_plain_session.py my.bundle 2,818,5279,576

For a decoder-only model. The caches go in as `past_key_values.*` and come back as `present.*`: here the runtime
copies them at every step. Bound to one and the same memory, as `runtime_shims/reference/onnx_program.py` does, they are
written in place.
"""

from __future__ import annotations

import sys

import numpy as np
import onnxruntime


def generate(bundle: str, prompt: list[int], count: int = 8) -> list[int]:
    """The `count` most likely tokens behind a prompt, which is fed token by token."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # it would warn of every cache that it copies
    session = onnxruntime.InferenceSession(f"{bundle}/decode.onnx", options, providers=["CPUExecutionProvider"])
    if any(value.name == "enc_lengths" for value in session.get_inputs()):
        sys.exit(f"{bundle} has an encoder, which this example leaves out; give a decoder-only bundle")
    pasts = [value for value in session.get_inputs() if value.name.startswith("past_key_values.")]
    caches = {value.name: np.zeros((1, *value.shape[1:]), np.float32) for value in pasts}
    tokens, zero, one = list(prompt), np.zeros((1, 1), np.int64), np.ones(1, np.int64)
    for position in range(len(prompt) + count - 1):
        step = {"input_ids": zero + tokens[position], "positions": one * position, "step_lengths": one}
        logits, *present = session.run(None, {**step, "logit_rows": zero, **caches})
        caches = dict(zip(caches, present, strict=True))
        if position + 1 == len(tokens):
            tokens.append(int(logits[0, 0].argmax()))
    return tokens[len(prompt) :]


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: onnx_plain_session.py BUNDLE IDS, a decoder-only ONNX bundle and ids such as 2,818,5279")
    print(*generate(sys.argv[1], [int(token) for token in sys.argv[2].split(",")]), sep=",")
