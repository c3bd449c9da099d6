"""Sizes and ranges as people read them."""

from __future__ import annotations

import pytest

from runtime_shims.contract.formatting import format_bytes, format_ranges


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (123_456, "123.5 kB"),
        (999_960, "1.0 MB"),
        (2_500_000_000, "2.5 GB"),
        (10**13, "10.0 TB"),
    ],
)
def test_sizes_are_written_in_the_largest_whole_unit(size: int, text: str) -> None:
    assert format_bytes(size) == text


@pytest.mark.parametrize(
    ("numbers", "text"), [([], ""), ([3], "3"), ([6, 0, 1, 2, 4], "0-2, 4, 6"), ([5, 4], "4-5")]
)
def test_neighbours_share_a_range(numbers: list[int], text: str) -> None:
    assert format_ranges(numbers) == text
