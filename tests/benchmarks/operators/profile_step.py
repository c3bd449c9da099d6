"""Where a decode step's time goes: ExecuTorch's own event trace of one bundle, by operator.

    python tests/benchmarks/operators/profile_step.py BUNDLE [--fill 0.5] [--rows 1] [--width 1] [--json FILE]

Times are medians over the traced steps, in milliseconds. Operators inside a delegate are listed with it and again
by name, so the shares of a backend's operators add up to that of `DELEGATE_CALL`. Tracing itself costs a little.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[3]))

from runtime_shims.contract.bundle_reader import Bundle, read_bundle
from runtime_shims.native import load_operator_library

STEPS = 12
_WHOLE = "Method::execute"


@dataclass(frozen=True)
class OperatorTime:
    """All calls of one operator in a step: how many, and their medians added up."""

    operator: str
    calls: int
    milliseconds: float


def inputs_of(bundle: Bundle, rows: int, width: int, fill: float) -> list[torch.Tensor]:
    """The inputs of `decode` at `fill` of the decoder's capacity, in the manifest's order."""
    limits = bundle.manifest.limits
    start = max(0, min(int(limits.max_dec * fill), limits.max_dec - width))
    enc_length = max(1, int((limits.max_enc or 0) * fill))
    values = {
        "tokens": torch.full((rows, width), 1),
        "positions": torch.full((rows,), start),
        "step_lengths": torch.full((rows,), width),
        "logit_rows": torch.full((rows, 1), width - 1),
        "enc_lengths": torch.full((rows,), enc_length),
    }
    decode = next(method for method in bundle.manifest.programs[0].methods if method.name == "decode")
    return [values[tensor.name] for tensor in decode.inputs]


def trace(program: Path, inputs: list[torch.Tensor], dump: Path) -> None:
    """Run `STEPS` equal steps and write their events to `dump`."""
    from executorch.extension.pybindings import portable_lib

    module = portable_lib._load_for_executorch(str(program), enable_etdump=True)
    for _ in range(STEPS):
        module.run_method("decode", inputs)
    module.write_etdump_result_to_file(str(dump))


def operator_times(dump: Path) -> list[OperatorTime]:
    """Times by operator, the largest first; operators of a delegate carry their names without numbers."""
    from executorch.devtools import Inspector

    block = next(block for block in Inspector(etdump_path=str(dump)).event_blocks if block.name == "Execute")
    calls: dict[str, int] = defaultdict(int)
    spent: dict[str, float] = defaultdict(float)
    for event in block.events:
        if event.perf_data is not None:
            name = event.name.split(" #")[0]
            calls[name] += 1
            spent[name] += event.perf_data.p50
    times = [OperatorTime(name, calls[name], spent[name]) for name in calls]
    return sorted(times, key=lambda time: -time.milliseconds)


def show(times: list[OperatorTime], whole: float) -> None:
    table = Table("operator", *("calls", "ms", "share"), box=None)
    for column in table.columns[1:]:
        column.justify = "right"
    for time in times:
        if time.milliseconds >= 0.001 * whole:
            share = f"{100 * time.milliseconds / whole:.1f} %"
            table.add_row(time.operator, str(time.calls), f"{time.milliseconds:.3f}", share)
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--fill", type=float, default=0.5, help="part of the decoder's capacity that is live")
    parser.add_argument("--rows", type=int, default=1)
    parser.add_argument("--width", type=int, default=1, help="tokens per row")
    parser.add_argument("--json", type=Path, help="write the times here")
    given = parser.parse_args()
    bundle = read_bundle(given.bundle)
    entry = bundle.manifest.programs[0]
    if entry.operator_library_required:
        load_operator_library()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as directory:
        dump = Path(directory) / "step.etdump"
        trace(bundle.file(entry.file), inputs_of(bundle, given.rows, given.width, given.fill), dump)
        times = operator_times(dump)
    show(times, next(time.milliseconds for time in times if time.operator == _WHOLE))
    if given.json:
        given.json.write_text(json.dumps([asdict(time) for time in times], indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
