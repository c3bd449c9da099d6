"""Windows of an encoder's sliding layers as tables of distances, against the masks of transformers.

Shape legend: E places of a source.
"""

from __future__ import annotations

import pytest
import torch
from transformers.masking_utils import sliding_window_bidirectional_overlay
from transformers.models.t5gemma2.modeling_t5gemma2 import sliding_window_mask_function

from exporter.cache.core_form import bias_from_table
from exporter.models.relative_bias import sides_of, window_table

PLACES = 14


@pytest.mark.parametrize("window", range(1, 10))
@pytest.mark.parametrize("is_shared", [True, False])
def test_a_table_hides_what_the_mask_of_transformers_hides(window: int, is_shared: bool) -> None:
    table = window_table(*sides_of(window, is_shared=is_shared), heads=2)
    places_E = torch.arange(PLACES)
    distances_1EE = (places_E[:, None] - places_E[None, :])[None]
    seen_EE = bias_from_table(table.table_HN, distances_1EE, table.origin)[0, 1] == 0.0
    if is_shared:
        sees = sliding_window_mask_function(window, is_causal=False)
    else:
        sees = sliding_window_bidirectional_overlay(window)
    expected = [[bool(sees(0, 0, torch.tensor(q), torch.tensor(k))) for k in range(PLACES)] for q in range(PLACES)]
    assert torch.equal(seen_EE, torch.tensor(expected))
