"""The pure parts of the benchmark suite: jobs, answers, rows, ratios, reports. No rival is needed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.benchmarks.capacity.points import (
    CAPACITIES,
    EXACT_CAPACITIES,
    LIVE,
    Point,
    lives_of,
    memory_ratios,
    step_ratios,
)
from tests.benchmarks.harness.answers import agreement, first_difference, likeness
from tests.benchmarks.harness.bandwidth import PROBE
from tests.benchmarks.harness.environments import ENVIRONMENTS, OWN
from tests.benchmarks.harness.greedy import GreedyRival
from tests.benchmarks.harness.job import Job, Unavailable, job_text, one_line, parse_job
from tests.benchmarks.harness.ratios import Ratio, paired_ratio
from tests.benchmarks.harness.report import Report, table
from tests.benchmarks.harness.rivals import OURS, REFERENCE, Rival
from tests.benchmarks.harness.rows import Row
from tests.benchmarks.run import parser

JOB = Job("fp32", "m", "c", "w", 2, prompts=[[1, 2]], new_tokens=3)
ROW = Row(
    OURS, "fp32", "w", None, rows=2, tokens=10, decode_seconds=2.0, total_seconds=4.0, weights_bytes=10**9,
)  # fmt: skip


def test_a_job_survives_its_own_text() -> None:
    assert parse_job(job_text(JOB)) == JOB


@pytest.mark.parametrize(("text", "said"), [('{"beams": 4}', "a job has no beams"), ('{"variant": "x"}', "not a job")])
def test_a_job_with_unknown_or_missing_keys_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_job(text)


def test_a_reason_is_one_short_line() -> None:
    assert one_line(ValueError("first\nsecond")) == "ValueError: first"
    assert one_line(Unavailable("no compiler")) == "no compiler"
    assert len(one_line("x" * 1000)) == 160


def test_equal_answers_have_no_difference() -> None:
    assert first_difference([[1, 2], [3]], [[1, 2], [3]]) is None


@pytest.mark.parametrize(
    ("got", "said"),
    [
        ([[1, 9], [3]], "row 0 differs at token 1 of 2: 9 instead of 2"),
        ([[1, 2], [3, 4]], "row 1 has 2 tokens instead of 1"),
        ([[1, 2]], "1 rows instead of 2"),
    ],
)
def test_the_first_difference_is_named(got: list[list[int]], said: str) -> None:
    assert first_difference([[1, 2], [3]], got) == said


def test_agreement_counts_places_and_refuses_other_lengths() -> None:
    assert agreement([1, 2, 3, 4], [1, 9, 3, 4]) == 0.75
    with pytest.raises(ValueError, match="1 choices for a continuation of 2 tokens"):
        agreement([1, 2], [1])


def test_likeness_survives_an_insertion_that_agreement_would_not() -> None:
    assert likeness([[1, 2, 3, 4]], [[9, 1, 2, 3, 4]]) > 0.8


class Counter:
    """A model that always says the next number."""

    weights_bytes = 0
    cache_element_bytes = 4

    def begin(self, prompts: list[list[int]]) -> list[int]:
        return self.step([row[-1] for row in prompts])

    def step(self, tokens: list[int]) -> list[int]:
        return [token + 1 for token in tokens]


def test_the_greedy_loop_feeds_a_rival_its_own_tokens_or_a_given_text() -> None:
    rival = GreedyRival(JOB, Counter())
    answer = rival.answer()
    assert answer.tokens == [[3, 4, 5]]
    assert answer.total == pytest.approx(answer.first_token + answer.decode)
    assert rival.follow([3, 7, 5]) == [3, 4, 8]


def test_rates_leave_out_each_rows_first_token() -> None:
    assert ROW.decode_tokens_per_second == 4.0
    assert ROW.tokens_per_second == 2.5
    # four steps of 10^9 weight bytes and 2 rows of 1,000 elements of 4 bytes, in 2 seconds
    assert ROW.read_gb_per_second(1000) == pytest.approx(4 * (1 + 8e-6) / 2)
    assert replace(ROW, decode_seconds=0.0).decode_tokens_per_second is None
    assert replace(ROW, rows=1, tokens=0).read_gb_per_second(1000) is None


def test_a_ratio_pairs_the_rounds() -> None:
    """The machine was three times slower in the last round; the quotient must not see it."""
    assert paired_ratio([2.0, 2.0, 6.0], [1.0, 1.0, 3.0]) == 2.0


@pytest.mark.parametrize(("value", "limit", "verdict"), [(1.1, 1.15, "met"), (1.2, 1.15, "missed"), (9.0, None, "")])
def test_a_ratio_is_held_against_its_limit(value: float, limit: float | None, verdict: str) -> None:
    assert Ratio(OURS, "step", value, limit).verdict == verdict


def points(rival: str) -> list[Point]:
    """One millisecond for every point, half a millisecond more at the largest capacity."""
    sizes = {*CAPACITIES, *EXACT_CAPACITIES}
    return [
        Point(rival, size, live, (0.0015,) if size == max(CAPACITIES) else (0.001,))
        for size in sizes
        for live in lives_of(size)
    ]


def test_every_ratio_that_is_asked_for_is_reported_with_its_limit() -> None:
    ratios = step_ratios(points(OURS))
    assert [ratio.limit for ratio in ratios] == [1.15, 1.15, 1.05, 1.05]
    assert [ratio.verdict for ratio in ratios] == ["met", "missed", "met", "missed"]
    assert all(ratio.limit is None for ratio in step_ratios(points("other")))


def test_a_rival_without_one_side_of_a_ratio_lacks_that_ratio_only() -> None:
    some = [point for point in points(OURS) if point.capacity not in EXACT_CAPACITIES]
    assert len(step_ratios(some)) == 2


def test_lives_fit_their_capacity_and_include_the_fixed_one() -> None:
    for capacity in CAPACITIES:
        assert LIVE in lives_of(capacity)
        assert max(lives_of(capacity)) == capacity - 1


def test_memory_is_held_against_its_promise() -> None:
    small = {"resident_bytes": 150_000_000, "promised_bytes": 100_000_000, "cache_bytes": 10_000_000}
    large = {"resident_bytes": 250_000_000, "promised_bytes": 180_000_000, "cache_bytes": 90_000_000}
    found = memory_ratios({4096: small, 32768: large})
    assert [ratio.verdict for ratio in found] == ["met", "missed", "missed"]
    assert found[-1].value == pytest.approx(100 / 80)
    assert len(memory_ratios({4096: small})) == 1


def report() -> Report:
    missing = Row.absent(Rival("other", "int4", "decode.other"), "w", "cannot be installed: no compiler")
    eager = replace(ROW, rival=REFERENCE, total_seconds=8.0)
    probe = replace(ROW, rival=PROBE.name, variant=PROBE.variant, decode_seconds=0.05)
    return Report("decode", [eager, ROW, missing, probe], {"w": "0" * 64}, {"w": 1000.0})


def test_a_report_keeps_rivals_that_did_not_take_part(tmp_path: Path) -> None:
    file = tmp_path / "results" / "decode.json"
    report().write(file, {"commit": "abc", "threads": 2})
    written = json.loads(file.read_text("utf-8"))
    assert (written["commit"], written["threads"], written["recipe_sha256"]) == ("abc", 2, {"w": "0" * 64})
    assert [row["note"] for row in written["results"]] == [None, None, "cannot be installed: no compiler", None]
    assert written["read_limit_gb_per_second"] == {"w": pytest.approx(20.0)}


def test_a_table_has_a_row_for_every_rival_but_the_probe() -> None:
    shown = table(report(), "w")
    assert shown.row_count == 3
    assert list(shown.columns[-1].cells) == ["equal", "equal", "cannot be installed: no compiler"]
    assert list(shown.columns[6].cells) == ["1.00x", "2.00x", ""]


def test_rounds_that_differ_too_much_are_named() -> None:
    steady = replace(ROW, fastest_seconds=1.0, slowest_seconds=1.2)
    shaken = replace(ROW, variant="int4", fastest_seconds=1.0, slowest_seconds=3.0)
    found = Report("decode", [steady, shaken]).disturbed()
    assert len(found) == 1
    assert f"w, {OURS} int4: the slowest round took 3.0 times the fastest" in found[0]


def test_the_command_line_takes_tasks_or_none_for_all() -> None:
    assert parser().parse_args([]).tasks == []
    assert parser().parse_args(["decode", "speech"]).tasks == ["decode", "speech"]
    with pytest.raises(SystemExit):
        parser().parse_args(["train"])


def test_every_rival_is_a_file_and_has_an_environment() -> None:
    from tests.benchmarks.capacity.workloads import PEER
    from tests.benchmarks.decode.workloads import RIVALS as DECODE
    from tests.benchmarks.seq2seq.workloads import RIVALS as SEQ2SEQ
    from tests.benchmarks.speech.workloads import RIVALS as SPEECH

    root = Path(__file__).parents[1] / "benchmarks"
    for rival in (*DECODE, *SEQ2SEQ, *SPEECH, PEER, PROBE):
        assert rival.environment == OWN or rival.environment in ENVIRONMENTS
        assert (root / f"{rival.module.replace('.', '/')}.py").is_file()


def test_environments_are_pinned_exactly_and_notice_a_change() -> None:
    for environment in ENVIRONMENTS.values():
        assert all("==" in package for group in environment.groups for package in group)
    first, second = list(ENVIRONMENTS.values())[:2]
    assert first.digest != second.digest
