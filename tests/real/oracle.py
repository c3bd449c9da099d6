"""Stock eager transformers as the judge of a finished sequence.

Greedy decoding chooses at every position the argmax of a full forward over what came before. So, by induction
over positions, a sequence is what eager greedy decoding gives if and only if at every position the argmax of
one eager forward over the sequence itself is its next token. One pass over the finished sequence, in chunks
and with a dynamic cache, therefore judges all its tokens, and costs a fraction of generating them again.

Shape legend: B rows, N judged positions, P probed vocabulary entries, T tokens, V vocabulary.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from transformers import DynamicCache, EncoderDecoderCache, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from tests.support.shared import THREADS, made_once

CHUNK = 128


@dataclass(frozen=True)
class Judgement:
    """What eager says after each of N positions of one sequence.

    best     int64 [N], its greedy choice
    margin   float32 [N], largest logit less the second largest: how far the choice is from a tie
    probes   float32 [N, P], logits of the probed vocabulary entries
    largest  largest magnitude of any logit, the scale of tolerances
    """

    best: Tensor
    margin: Tensor
    probes: Tensor
    largest: float


class JudgedOnce:
    """Judgements of a model's sequences, kept in a directory: what several programs say is judged once in a run."""

    def __init__(self, directory: Path, model: Callable[[], PreTrainedModel]) -> None:
        """`model` loads the judge, if it is not there."""
        self._directory, self._model = directory, model

    def __call__(self, tokens: Sequence[int], prompt_length: int, probe_P: Tensor) -> Judgement:
        """As `judge_decoder_only`."""

        def judge(path: Path) -> None:
            torch.save(vars(judge_decoder_only(self._model(), tokens, prompt_length, probe_P)), path)

        asked = repr((list(tokens), prompt_length, probe_P.tolist()))
        name = f"{hashlib.sha256(asked.encode()).hexdigest()}.judgement"
        return Judgement(**torch.load(made_once(self._directory / name, judge)))


@contextmanager
def eager_threads() -> Iterator[None]:
    """Our cores for PyTorch inside, one outside: its pool must not fight the program runtime's."""
    torch.set_num_threads(THREADS)
    try:
        yield
    finally:
        torch.set_num_threads(1)


def judge_decoder_only(model: PreTrainedModel, tokens: Sequence[int], prompt_length: int, probe_P: Tensor) -> Judgement:
    """Judge every token of `tokens` past the prompt: N = len(tokens) - prompt_length."""
    cache = DynamicCache(config=model.config)
    held_1T = torch.tensor([list(tokens[:-1])])
    parts = []
    with eager_threads(), torch.no_grad():
        for start in range(0, held_1T.shape[1], CHUNK):
            chunk = held_1T[:, start : start + CHUNK]
            logits_TV = model(input_ids=chunk, cache=cache, use_cache=True).logits[0].float()
            parts.append(_facts(logits_TV[max(prompt_length - 1 - start, 0) :], probe_P))
    best, margin, probes, largest = zip(*parts, strict=True)
    return Judgement(torch.cat(best), torch.cat(margin), torch.cat(probes), max(largest))


def teacher_forced_logits(model: PreTrainedModel, source_BE: Tensor, decoder_BT: Tensor) -> Tensor:
    """Logits float32 [B, T, V] of one unpadded eager pass of an encoder-decoder over its own output.

    All rows have the same encoder length, so that a batch needs neither padding nor a mask.
    """
    cross = EncoderDecoderCache(DynamicCache(), DynamicCache())
    with eager_threads(), torch.no_grad():
        encoded = model.get_encoder()(input_ids=source_BE)[0]
        output = model(
            encoder_outputs=BaseModelOutput(last_hidden_state=encoded),
            decoder_input_ids=decoder_BT,
            cache=cross,
            use_cache=True,
        )
    return output.logits.float()


def margins(logits: Tensor) -> Tensor:
    """Largest logit less the second largest, over the last dimension."""
    top = torch.topk(logits, 2, dim=-1).values
    return top[..., 0] - top[..., 1]


def first_difference(expected: Sequence[int], got: Sequence[int]) -> int | None:
    """Index of the first token that differs, or that one side lacks; None when the sequences are equal."""
    for index, (wanted, given) in enumerate(zip(expected, got, strict=False)):
        if wanted != given:
            return index
    return None if len(expected) == len(got) else min(len(expected), len(got))


def _facts(logits_NV: Tensor, probe_P: Tensor) -> tuple[Tensor, Tensor, Tensor, float]:
    largest = float(logits_NV.abs().max()) if logits_NV.numel() else 0.0
    return logits_NV.argmax(dim=-1), margins(logits_NV), logits_NV[:, probe_P], largest
