"""What a run cost: time and tokens per phase, and the process's peak memory."""

from __future__ import annotations

import resource
import sys
from dataclasses import dataclass
from pathlib import Path

STATUS = Path("/proc/self/status")


@dataclass
class RunStats:
    """Accumulated over one or more requests. Times are seconds of wall clock.

    encode   checking the request and running the encoder
    prefill  running the prompts, up to the logits of the first new token
    decode   everything after that: choosing tokens, callbacks, steps; its tokens are the new ones
             without each row's first, whose logits come from prefill
    """

    requests: int = 0
    encode_seconds: float = 0.0
    prefill_seconds: float = 0.0
    prefill_tokens: int = 0
    decode_seconds: float = 0.0
    new_tokens: int = 0
    decode_tokens: int = 0
    steps: int = 0

    def as_dict(self) -> dict[str, float | int | None]:
        """For JSON output. Rates are tokens per second over all rows."""
        return {
            "requests": self.requests,
            "encode_seconds": self.encode_seconds,
            "prefill_seconds": self.prefill_seconds,
            "prefill_tokens": self.prefill_tokens,
            "prefill_tokens_per_second": rate(self.prefill_tokens, self.prefill_seconds),
            "decode_seconds": self.decode_seconds,
            "new_tokens": self.new_tokens,
            "decode_steps": self.steps,
            "decode_tokens_per_second": rate(self.decode_tokens, self.decode_seconds),
            "peak_rss_bytes": peak_rss_bytes(),
        }


def rate(count: int, seconds: float) -> float | None:
    """`count` per second; None when no time was measured."""
    return count / seconds if seconds > 0 and count > 0 else None


def peak_rss_bytes() -> int:
    """Highest resident memory of this process since it started, in bytes.

    On Linux `getrusage` starts from the memory of the process that started this one, so the kernel's own
    high-water mark is read instead where there is one.
    """
    if STATUS.is_file():
        for line in STATUS.read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
