"""ONNX Runtime as this project loads it: silent, and its errors one line."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from runtime_shims.contract.bundle_reader import REPAIR
from runtime_shims.contract.errors import BundleCorrupt, UnsupportedSetting, UserInputError
from runtime_shims.contract.onnx_names import OPSET, RUNTIME
from runtime_shims.reference.native_stderr import captured_native_stderr

_SILENT = 4
"""The runtime's level of messages that says fatal ones only: its errors are exceptions."""
_CODE = re.compile(r"\[ONNXRuntimeError\] : \d+ : \w+ : ")
_TOO_NEW = re.compile(r"Opset \d+ is under development|Unsupported model IR version.*|Could not find an impl.*")
"""What the runtime says of a graph in operators, or a format, that it does not know."""


def load_runtime() -> Any:
    """The module `onnxruntime`, silenced. Raises UnsupportedSetting when it is not installed, or too old.

    Releases before the oldest that is known to run these programs may run them, and answer something else.

    Official builds from 1.29 on tell their maker about every model, and keep a database in the user's home for that.
    Whoever wants that sets the variable to another value.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    try:
        with captured_native_stderr():
            import onnxruntime
    except ImportError as error:
        raise UnsupportedSetting(
            f"onnxruntime is not installed ({error}), so ONNX programs cannot run; install fixed-capacity[onnx]"
        ) from None
    if is_older(onnxruntime.__version__, RUNTIME):
        raise UnsupportedSetting(
            f"onnxruntime {onnxruntime.__version__} is too old for ONNX programs; "
            f"install onnxruntime {RUNTIME} or later"
        )
    onnxruntime.set_default_logger_severity(_SILENT)
    return onnxruntime


def load_session(path: Path, threads: int) -> Any:
    """A session over one graph, run by `threads` threads.

    Raises BundleCorrupt when the runtime refuses the file, UnsupportedSetting when it is not installed or too old.
    """
    runtime = load_runtime()
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = _SILENT
    try:
        return runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the runtime's errors have no base class of their own
        cause = one_line(error)
        too_new = _TOO_NEW.search(cause)
        if too_new is not None:
            raise UnsupportedSetting(
                f"{path.name} needs more than onnxruntime {runtime.__version__} knows ({too_new[0]}), and this release "
                f"writes opset {OPSET}; install a newer onnxruntime, or export the model again"
            ) from None
        raise BundleCorrupt(path.name, [f"ONNX Runtime cannot load it ({cause})"], REPAIR) from None


def is_older(version: str, wanted: str) -> bool:
    """Whether a version is before `wanted`, by the numbers that `wanted` has."""
    numbers, least = ([int(part) for part in re.findall(r"\d+", text)] for text in (version, wanted))
    return numbers[: len(least)] < least


def one_line(error: Exception) -> str:
    """What the runtime says, without its error code and line breaks."""
    return _CODE.sub("", " ".join(str(error).split()))


def checked_threads(count: int | None) -> int:
    """Threads of a session; one per core of this process when None. Raises UserInputError for a count below 1."""
    if count is None:
        cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
        return len(cores)
    if count < 1:
        raise UserInputError(f"--threads must be at least 1, got {count}")
    return count
