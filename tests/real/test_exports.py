"""What the exports cost: a table at the end of the run, and bounds that only a gross fault would break."""

from __future__ import annotations

import pytest

from tests.real.exports import CASES, SPELLINGS, Exports

pytestmark = pytest.mark.real


@pytest.mark.parametrize("attention", SPELLINGS)
@pytest.mark.parametrize("name", CASES)
def test_an_export_stores_each_weight_once_and_holds_few_copies(
    name: str, attention: str, exports: Exports
) -> None:
    manifest = exports.bundle(name, attention).manifest
    record = exports.records[name, attention]
    assert manifest.recipe.attention == attention
    assert 0.9 < record.file_bytes / record.weights_bytes < 1.5
    assert record.peak_rss_bytes < 2e9 + 12 * record.weights_bytes
