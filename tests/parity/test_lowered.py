"""Program files, each loaded once and used for everything below, equal stock transformers.

The session of a program is shared by all tests, whatever the last one left behind: a program that saw stale state
would fail in the next test.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import pytest
import torch

from runtime_shims.reference.session import Session
from tests.parity.programs import (
    GEMMA,
    GEMMA_ONNX,
    GEMMA_PORTABLE,
    PROGRAMS,
    T5,
    T5_ONNX,
    WHISPER,
    WHISPER_ONNX,
    Lowered,
    on,
)
from tests.parity.schedules import Request, ids, in_chunks, start, wander
from tests.support.tiny_configs import WINDOW


@on(*PROGRAMS)
def test_ragged_steps_idle_rows_and_rollbacks_past_ten_windows_equal_stock(lowered: Lowered) -> None:
    session, rows = lowered.session, lowered.session.limits.max_batch
    texts, prompts = [97, 40, 11, 63, 30, 22, 5, 18][:rows], [3, 23, 1, 12, 30, 6, 2, 17][:rows]
    request = lowered.request(texts, [24, 1, 9, 17, 300, 2, 40, 8][:rows])
    lowered.check([*start(session, request, prompts), *wander(session, request, seed=1)], request)
    reordered = request.rows(range(rows)[::-2])
    ones = [1] * len(reordered.texts)
    lowered.check([*start(session, reordered, ones), *wander(session, reordered, seed=2)], reordered)


@on(T5, T5_ONNX)
@pytest.mark.parametrize("chunk", [1, 3, 4])
def test_any_batch_and_any_encoder_length_in_any_chunking_equal_stock(lowered: Lowered, chunk: int) -> None:
    """(batch, encoder length) in {1, mid, max} squared, one row of every batch at the full length."""
    limits = lowered.session.limits
    for batch, longest in product((1, 3, limits.max_batch), (1, 100, limits.max_enc)):
        sources = [max(1, longest // (row + 1)) for row in range(batch)]
        request = lowered.request([10 - row for row in range(batch)], sources, seed=batch)
        lowered.check(in_chunks(lowered.session, request, chunk), request)


@on(*PROGRAMS)
def test_prompts_of_any_length_in_chunks_equal_stock(lowered: Lowered) -> None:
    """Lengths around the window, the chunk and the slots of a ring."""
    limits = lowered.session.limits
    lengths = [1, limits.max_step, limits.max_step + 1, WINDOW - 1, WINDOW, WINDOW + 1, 12, 13, 60]
    for first in range(0, len(lengths), limits.max_batch):
        some = lengths[first : first + limits.max_batch]
        request = lowered.request(some, [5] * len(some), seed=first)
        lowered.check(start(lowered.session, request, some), request)


@on(*PROGRAMS)
def test_a_full_batch_then_one_row_then_a_full_batch_show_no_stale_rows(lowered: Lowered) -> None:
    limits = lowered.session.limits
    full = limits.max_batch
    for seed, (rows, source) in enumerate([(full, 500), (1, 3), (full, 7), (1, 1), (full, 20)]):
        request = lowered.request([12] * rows, [min(source, limits.max_enc or 1)] * rows, seed)
        lowered.check(in_chunks(lowered.session, request, 4), request)


@on(T5, WHISPER, GEMMA_PORTABLE, T5_ONNX, GEMMA_ONNX)
def test_a_request_is_answered_the_same_after_others_were_begun_and_left(lowered: Lowered) -> None:
    session = lowered.session
    first, second = lowered.request([20, 9], [30, 12]), lowered.request([15, 15], [2, 44], seed=5)
    wanted = [logits for _, _, logits in in_chunks(session, first, 2)]
    abandoned = in_chunks(session, second, 3)
    for _ in range(5):
        next(abandoned)
    got = [logits for _, _, logits in in_chunks(session, first, 2)]
    assert all(torch.equal(*pair) for pair in zip(got, wanted, strict=True))


@on(T5, WHISPER, T5_ONNX, WHISPER_ONNX)
def test_encoding_again_between_steps_disturbs_no_decoder_state(lowered: Lowered) -> None:
    """The methods of a program share the caches by name and nothing else."""
    session, request = lowered.session, lowered.request([20, 9], [30, 12])
    wanted = [logits for _, _, logits in in_chunks(session, request, 2)]
    got = []
    for _, _, logits in in_chunks(Session(lowered.bundle, lowered.program), request, 2):
        got.append(logits)
        encode_again(lowered, request)
    assert all(torch.equal(*pair) for pair in zip(got, wanted, strict=True))


def encode_again(lowered: Lowered, request: Request) -> None:
    """Run the encoder on the same sources; text is padded further than before."""
    limits, sources = lowered.session.limits, request.sources or ()
    if limits.source_shape is not None:
        lowered.program.encode(torch.stack(list(sources)), torch.tensor([limits.max_enc] * len(sources)))
        return
    width = max(map(len, sources)) + 7
    padded = torch.cat([padded_to(width, row) for row in sources])
    lowered.program.encode(padded, torch.tensor([len(row) for row in sources]))


def padded_to(width: int, source: Sequence[int]) -> torch.Tensor:
    """int64 `[1, width]` with a token that means something as padding."""
    return torch.tensor([[*source, *[9] * (width - len(source))]])


@on(T5, T5_ONNX)
def test_padding_the_source_to_any_width_changes_nothing(lowered: Lowered) -> None:
    """The same sentence padded to n, n + 7 and the capacity."""
    session, request = lowered.session, lowered.request([5], [11])
    for width in (11, 18, session.limits.max_enc):
        session.begin(request.texts, padded_to(width, request.sources[0]), [11])
        lowered.check([(0, 4, session.prefill()[0])], request)


@on(T5, GEMMA, T5_ONNX, GEMMA_ONNX)
def test_the_other_rows_of_a_batch_change_nothing(lowered: Lowered) -> None:
    request = lowered.request([14, 14, 14], [11, 40, 3])
    for order in ([0], [0, 1], [0, 2], [0, 1, 2]):
        rows = request.rows(order)
        answers = [answer for answer in in_chunks(lowered.session, rows, 3) if answer[0] == 0]
        lowered.check(answers, rows)


@on(GEMMA, GEMMA_PORTABLE, T5, GEMMA_ONNX, T5_ONNX)
def test_ten_windows_with_random_rejected_drafts_equal_eager_greedy(lowered: Lowered) -> None:
    """Propose, verify in one call, keep what greedy agrees with, roll the rest back: the tokens of plain greedy."""
    session, request = lowered.session, lowered.request([3], [20])
    rules = replace(session.manifest.tokens, eos=())
    source = None if request.sources is None else request.sources[0]
    truth = lowered.stock.greedy(request.texts[0], source, 10 * WINDOW + 4, rules)
    session.begin(request.texts, request.session_source)
    tokens, accepted_counts = [int(session.prefill()[0].argmax())], set()
    chance = random.Random(5)
    while len(tokens) <= 10 * WINDOW:
        agreed = truth[len(tokens) : len(tokens) + session.limits.max_draft]
        drafts = [token if chance.random() < 0.7 else ids(1, len(tokens))[0] for token in agreed]
        best = session.step([[tokens[-1], *drafts]])[0].argmax(-1).tolist()
        accepted = next((n for n, draft in enumerate(drafts) if draft != best[n]), len(drafts))
        session.rollback(0, len(drafts) - accepted)
        tokens += [*drafts[:accepted], best[accepted]]
        accepted_counts.add(accepted)
    assert tokens == list(truth[: len(tokens)])
    assert accepted_counts == {0, 1, 2, 3}
