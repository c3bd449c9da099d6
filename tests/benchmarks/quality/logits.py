"""A rival's logits over fixed texts, written to a file: how every process of this task ends.

A rival's file defines a function from a job to logits over one text and calls `write_logits`. The job's prompts are the
texts, its `audio` is the file to write (NumPy).

Shape legend: T tokens of all texts, V vocabulary.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

from tests.benchmarks.harness.job import Job, parse_job

LogitsOf = Callable[[list[int]], np.ndarray]


def write_logits(load: Callable[[Job], LogitsOf]) -> None:
    """float32 `[T, V]`, after each token of each text, into the job's file."""
    job = parse_job(sys.argv[1])
    logits_of = load(job)
    np.save(job.audio, np.concatenate([logits_of(tokens) for tokens in job.prompts]).astype(np.float32))
