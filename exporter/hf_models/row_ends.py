"""When rows end: as transformers says, and when the caches are full.

Shape legend: B rows, T tokens.
"""

from __future__ import annotations

import logging
from typing import Any

from torch import BoolTensor, LongTensor, Tensor
from transformers import StoppingCriteriaList

from exporter.hf_models.request_cache import RequestCache

_LOG = logging.getLogger(__name__)


class RowEnds(StoppingCriteriaList):
    """The criteria of a call, and the capacity. Rows that have ended are written no more."""

    def __init__(self, criteria: StoppingCriteriaList, cache: RequestCache, is_cut: bool) -> None:
        """`is_cut` says that the length asked for does not fit, and was cut to what does."""
        super().__init__(criteria)
        self._cache = cache
        self._is_cut = is_cut
        self._pads = any(hasattr(one, "eos_token_id") for one in criteria)  # transformers pads ended rows only then

    def __call__(self, input_ids: LongTensor, scores: Any, **kwargs: Any) -> BoolTensor:
        """Rows that end with the last token, bool [B]; `input_ids` is int64 [B, T]."""
        done_B: Tensor = super().__call__(input_ids, scores, **kwargs)
        full_B = self._cache.full() & (~done_B | self._is_cut)
        if full_B.any():
            row = int(full_B.nonzero()[0])
            most = self._cache.shared.session.limits.max_dec
            _LOG.warning("row %s ended: its %s decoder positions are full; export with a larger --max-dec", row, most)
            done_B = done_B | (full_B if self._pads else True)
        if self._pads:
            self._cache.finish(done_B)
        return done_B
