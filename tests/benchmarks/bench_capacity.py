"""What capacity costs: one step's time against capacity at a fixed live length, and against live length.

    python tests/benchmarks/bench_capacity.py [--capacities 256 1024 4096 16384] [--json FILE] [--plot FILE.png]

Eight layers of SmolLM2-135M's geometry with seeded weights are exported once per capacity, by the command line, and
every bundle is verified against eager PyTorch as it is made. Before anything is timed, all bundles must give the
same logits at the same position. Then they take turns, so that all see the same machine; times are medians.

Two answers are held against their limits: growing the capacity 64-fold at the same live length, and a step at 5 %
fill against a bundle whose capacity is exactly what is live.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[2]))

from runtime_shims.reference.executorch_program import set_runtime_threads
from runtime_shims.reference.loading import open_session
from runtime_shims.reference.session import Session
from tests.real.exports import script

LIVE = 200
ROUNDS, STEPS = 7, 20
LAYERS = 8


@dataclass(frozen=True)
class Measurement:
    """Milliseconds of one step at `live` positions of a bundle of `capacity`."""

    capacity: int
    live: int
    milliseconds: float


def checkpoint(directory: Path) -> Path:
    """A config of `LAYERS` layers; the command line draws its weights."""
    from transformers import LlamaConfig

    LlamaConfig(
        vocab_size=4096, hidden_size=576, intermediate_size=1536, num_hidden_layers=LAYERS, num_attention_heads=9,
        num_key_value_heads=3, max_position_embeddings=1 << 17, tie_word_embeddings=True,
        bos_token_id=1, eos_token_id=2,
    ).save_pretrained(directory)  # fmt: skip
    return directory


def export(model: Path, capacity: int, directory: Path) -> Session:
    bundle = directory / f"{capacity}.bundle"
    command = [script("export-model"), str(model), "--random-weights", "--max-dec", str(capacity)]
    subprocess.run([*command, "--prefill-chunk", "64", "-o", str(bundle)], check=True, capture_output=True)
    return open_session(bundle)


def fill(session: Session, live: int) -> torch.Tensor:
    """Begin a request of `live` tokens; the logits after them."""
    session.begin([[3 + place % 4000 for place in range(live)]])
    return session.prefill()[0].clone()


def step_milliseconds(session: Session, live: int) -> float:
    """One step at `live` positions, written and taken back again; the median of `STEPS`."""
    fill(session, live)
    times = []
    for _ in range(STEPS):
        started = time.perf_counter()
        session.step([[7]])
        times.append(1000 * (time.perf_counter() - started))
        session.rollback(0, 1)
    return statistics.median(times)


def measure(sessions: dict[int, Session], points: list[tuple[int, int]]) -> list[Measurement]:
    """Times at (capacity, live) points, which take turns; the median over rounds."""
    times: dict[tuple[int, int], list[float]] = {point: [] for point in points}
    for _ in range(ROUNDS):
        for capacity, live in points:
            times[capacity, live].append(step_milliseconds(sessions[capacity], live))
    return [Measurement(*point, statistics.median(found)) for point, found in times.items()]


def check_answers(sessions: dict[int, Session]) -> None:
    """Stop unless every bundle says the same after the same tokens."""
    logits = [fill(session, LIVE) for session in sessions.values()]
    worst = max(float((logits[0] - other).abs().max()) for other in logits)
    if worst > 1e-4 * float(logits[0].abs().max()):
        raise SystemExit(f"bundles of different capacity disagree by {worst:.3g}; nothing was timed")


def show(found: list[Measurement], exact: Measurement) -> None:
    table = Table("capacity", "live", "fill", "ms per step", "against exact capacity", box=None)
    for column in table.columns:
        column.justify = "right"
    for item in sorted(found, key=lambda item: (item.live, item.capacity)):
        ratio = f"{item.milliseconds / exact.milliseconds:.2f}" if item.live == exact.live else ""
        share = f"{100 * item.live / item.capacity:.0f} %"
        table.add_row(str(item.capacity), str(item.live), share, f"{item.milliseconds:.3f}", ratio)
    Console().print(table)


def plot(found: list[Measurement], file: Path) -> None:
    """Step time against live length, one line per capacity."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4))
    for capacity in sorted({item.capacity for item in found}):
        line = sorted((item for item in found if item.capacity == capacity), key=lambda item: item.live)
        axes.plot(
            [item.live for item in line], [item.milliseconds for item in line], marker="o", label=f"{capacity} slots"
        )
    axes.set(xlabel="live positions", ylabel="ms per step", xscale="log", ylim=(0, None))
    axes.legend(title="capacity")
    figure.tight_layout()
    figure.savefig(file, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--capacities", type=int, nargs="+", default=[256, 1024, 4096, 16384])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write the measurements here")
    parser.add_argument("--plot", type=Path, help="draw them here (needs matplotlib)")
    given = parser.parse_args()
    torch.set_num_threads(1)
    set_runtime_threads(given.threads)
    with tempfile.TemporaryDirectory() as directory:
        model = checkpoint(Path(directory) / "model")
        capacities = sorted({LIVE + 1, *given.capacities})
        sessions = {capacity: export(model, capacity, Path(directory)) for capacity in capacities}
        check_answers(sessions)
        points = [(capacity, LIVE) for capacity in capacities]
        points += [(capacity, int(capacity * part)) for capacity in given.capacities for part in (0.05, 0.5, 0.99)]
        found = measure(sessions, points)
    exact = next(item for item in found if item.capacity == LIVE + 1)
    show(found, exact)
    if given.json:
        given.json.write_text(json.dumps([asdict(item) for item in found], indent=2), encoding="utf-8")
    if given.plot:
        plot(found, given.plot)


if __name__ == "__main__":
    main()
