"""Random draws are pure functions of seed, stream and index."""

from __future__ import annotations

import statistics

import pytest

from runtime_shims.contract.errors import UserInputError
from runtime_shims.reference.random_stream import RandomStream, draft_stream, target_stream, uniform


def draws(stream: RandomStream, count: int) -> list[float]:
    return [stream.next() for _ in range(count)]


def test_a_stream_is_read_by_index_and_counts_what_it_gave() -> None:
    stream = RandomStream(seed=7, stream=3)
    assert draws(stream, 5) == [uniform(7, 3, index) for index in range(5)]
    assert stream.drawn == 5


def test_every_row_owns_two_streams_that_no_other_row_has() -> None:
    streams = [make(11, row) for row in range(50) for make in (target_stream, draft_stream)]
    assert len({draw for stream in streams for draw in draws(stream, 20)}) == 50 * 2 * 20


def test_draws_are_multiples_of_two_to_the_minus_53_below_one() -> None:
    values = draws(RandomStream(2**64 - 1, 0), 1000)
    assert all(0.0 <= value < 1.0 and value * 2**53 == int(value * 2**53) for value in values)


def test_draws_fill_the_unit_interval_evenly_along_a_stream_and_across_streams_and_seeds() -> None:
    count = 4000
    ways = (
        [uniform(1, 0, i) for i in range(count)],
        [uniform(1, i, 0) for i in range(count)],
        [uniform(i, 0, 0) for i in range(count)],
    )
    for values in ways:
        bins = [sum(int(value * 16) == part for value in values) for part in range(16)]
        expected = count / 16
        assert sum((found - expected) ** 2 / expected for found in bins) < 37.7  # 0.1 % at 15 degrees of freedom
        correlation = statistics.correlation(values[:-1], values[1:])
        assert abs(correlation) < 4 / count**0.5


@pytest.mark.parametrize(("seed", "stream"), [(-1, 0), (0, -1), (1.5, 0), (True, 0)])
def test_a_seed_or_stream_that_is_no_whole_number_is_refused(seed: int, stream: int) -> None:
    with pytest.raises(UserInputError, match="must be an integer"):
        RandomStream(seed, stream)
