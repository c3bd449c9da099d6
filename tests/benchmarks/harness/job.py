"""What the suite and a rival's process say to each other: a job at the start, then one JSON line per command.

Standard library only: these files are imported in every rival's environment.

    (start)                               {"load_seconds": s, "weights_bytes": n, ...}, or {"unavailable": "why"}
    {"do": "answer"}                      an `Answer`
    {"do": "follow", "tokens": [ids]}     {"tokens": [ids]}: the greedy choice at every place of a given continuation
    {"do": "finish"}                      {"peak_rss_bytes": n}, and the process ends
    {"do": "check" | "time" | "endure"}   what the rivals of the capacity task return from methods of these names
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields

MAX_REASON = 160


@dataclass(frozen=True)
class Job:
    """What to run.

    variant     which form of the rival: a number format, a quantization scheme
    model       path of what the rival loads or converts: a bundle, a checkpoint, a GGUF file
    checkpoint  directory of the dense fp32 checkpoint with the same weights
    work        directory where the rival may keep what it converts
    prompts     token ids, one row per sequence (encoder-decoder: the source rows); empty for speech
    audio       16-bit mono WAV file at 16 kHz, for speech
    capacity    most positions that caches must hold
    lives       live lengths at which a step is timed (capacity task only)
    """

    variant: str
    model: str
    checkpoint: str
    work: str
    threads: int
    prompts: list[list[int]] = field(default_factory=list)
    new_tokens: int = 0
    audio: str = ""
    capacity: int = 0
    lives: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Answer:
    """New tokens per row, and seconds.

    first_token  everything up to the first new token, encoder included; 0 when the rival does not tell
    decode       the rest; 0 when the rival does not tell
    """

    tokens: list[list[int]]
    first_token: float
    decode: float
    total: float


@dataclass(frozen=True)
class Loaded:
    """What a rival tells once it is ready.

    weights_bytes        bytes of weights that one step reads; 0 when it does not know
    cache_element_bytes  size of one key or value element
    packages             versions of the packages that do the work
    """

    load_seconds: float
    weights_bytes: int
    cache_element_bytes: int
    packages: dict[str, str]


class Unavailable(Exception):
    """A rival cannot take part; the message is the one line that its row shows."""


def parse_job(text: str) -> Job:
    """The job in a JSON text. Raises ValueError for unknown or missing keys."""
    data = json.loads(text)
    known = {entry.name for entry in fields(Job)}
    if unknown := sorted(set(data) - known):
        raise ValueError(f"a job has no {', '.join(unknown)}")
    try:
        return Job(**data)
    except TypeError as error:
        raise ValueError(f"not a job: {error}") from None


def job_text(job: Job) -> str:
    """The job as one line of JSON."""
    return json.dumps(asdict(job))


def one_line(error: object) -> str:
    """The first telling line of an error, without its name when it says nothing, cut to `MAX_REASON` characters."""
    text = str(error).strip()
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    if isinstance(error, Exception) and not isinstance(error, Unavailable):
        line = f"{type(error).__name__}: {line}" if line else type(error).__name__
    return line if len(line) <= MAX_REASON else line[: MAX_REASON - 3] + "..."
