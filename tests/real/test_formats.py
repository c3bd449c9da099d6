"""Real weights in fewer bits: how near their bundles stay to eager PyTorch in fp32, and that rollback stays exact.

A bundle generates greedily; eager then judges the finished sequence once (`oracle.py`). Quantized bundles choose other
tokens where two are almost equally likely, so the claims are on how often they agree and how far logits move.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest
import torch

from runtime_shims.native import operator_library_path
from runtime_shims.reference.audio import AudioCut, load_speech_features
from runtime_shims.reference.generation import generate
from runtime_shims.reference.loading import open_session
from runtime_shims.reference.session import Session
from runtime_shims.reference.text import load_text_codec
from tests.real.exports import Exports
from tests.real.greedy_driver import GreedyRun, greedy_run
from tests.real.oracle import Judgement, judge_decoder_only
from tests.real.summary import Summary
from tests.real.test_whisper import BECKETT, DICKENS, SECONDS
from tests.support.real import real_weights
from tests.support.shared import THREADS

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(operator_library_path() is None, reason="the C++ operator library is not installed"),
]

PROMPT = "In the spring of 1847, the surveyor Thomas Aldridge left the harbour of Bristol with"
PROBES = 1000


@dataclass(frozen=True)
class Format:
    """A bundle, how many tokens it writes, and how near it must stay to fp32.

    agreement    least share of positions at which eager chooses the same token
    divergence   largest mean |difference| of a logit
    """

    name: str
    new_tokens: int
    agreement: float
    divergence: float

    def __str__(self) -> str:
        return self.name


# Gemma's 600 tokens turn its rings of 575 slots.
FORMATS = (
    Format("gemma3-float16", 600, 0.995, 0.01),
    Format("gemma3-int8-weights-kv", 600, 0.97, 0.45),
    Format("smollm2-8da4w", 300, 0.97, 0.3),
)


@dataclass(frozen=True)
class Finished:
    format: Format
    session: Session
    prompt: list[int]
    run: GreedyRun
    judgement: Judgement
    probe_P: torch.Tensor


@pytest.fixture(scope="module", params=FORMATS, ids=str)
def finished(request: pytest.FixtureRequest, exports: Exports) -> Finished:
    made: Format = request.param
    exports.start((name, "fused") for name in (*map(str, FORMATS), "whisper-8da8w"))  # side by side with these tests
    model, tokenizer = request.getfixturevalue(made.name.split("-")[0])
    session = open_session(exports.bundle(made.name, "fused"), threads=THREADS)
    prompt = tokenizer(PROMPT).input_ids
    vocab_size = session.manifest.tokens.vocab_size
    probe_P = torch.randperm(vocab_size, generator=torch.Generator().manual_seed(0))[:PROBES]
    run = greedy_run(session, prompt, made.new_tokens, probe_P)
    judgement = judge_decoder_only(model, prompt + run.tokens, len(prompt), probe_P)
    return Finished(made, session, prompt, run, judgement, probe_P)


def test_tokens_and_logits_stay_near_eager_in_fp32(finished: Finished, summary: Summary) -> None:
    made, run, judgement = finished.format, finished.run, finished.judgement
    agreement = float((judgement.best == torch.tensor(run.tokens)).float().mean())
    divergence = float((run.probes - judgement.probes).abs().mean())
    finding = f"{agreement:.1%} of {len(run.tokens)} tokens are eager's, logits differ by {divergence:.2g} on average"
    summary.add(made.name, "fused", finding)
    assert agreement >= made.agreement
    assert divergence <= made.divergence


def test_rejected_drafts_leave_no_trace(finished: Finished) -> None:
    """Steps of one token give the same bits again with wrong drafts written and taken back between them."""
    session, run, numbers = finished.session, finished.run, random.Random(5)
    session.begin([finished.prompt])
    session.prefill()
    most = session.limits.max_draft
    for at, token in enumerate(run.tokens[:-1]):
        wrong = [numbers.randrange(session.manifest.tokens.vocab_size) for _ in range(numbers.randint(0, most))]
        if wrong:
            session.step([wrong])
            session.rollback(0, len(wrong))
        logits_V = session.step([[token]])[0, 0]
        assert torch.equal(logits_V[finished.probe_P], run.probes[at + 1]), f"token {at}"


def test_formats_take_the_memory_they_promise(exports: Exports) -> None:
    halves = exports.bundle("gemma3-float16", "fused").manifest
    eighths = exports.bundle("gemma3-int8-weights-kv", "fused").manifest
    assert {cache.dtype for cache in halves.caches} == {"float16"}
    assert {cache.dtype for cache in eighths.caches} == {"int8"}
    assert eighths.memory.cache_bytes * 512 == halves.memory.cache_bytes * 260  # 256 values and a scale
    for name in ("gemma3-float16", "gemma3-int8-weights-kv", "smollm2-8da4w"):
        record = exports.records[name, "fused"]
        assert 0.99 < record.file_bytes / record.weights_bytes < 1.03


@pytest.mark.parametrize("attention", ["fused", pytest.param("portable", marks=pytest.mark.large)])
def test_whisper_in_8_bits_hears_every_word(attention: str, exports: Exports, summary: Summary) -> None:
    bundle = exports.bundle("whisper-8da8w", attention)
    extractor, recordings = load_speech_features(bundle), real_weights().speech_wavs()
    features = torch.cat([extractor.of_file(path, AudioCut(0.0, SECONDS)) for path in recordings])
    session = open_session(bundle, threads=THREADS)
    generations = generate(session, [bundle.manifest.tokens.start] * len(recordings), features)
    codec = load_text_codec(bundle)
    texts = [codec.decode(answer.tokens) for answer in generations]
    summary.add("whisper-8da8w", attention, "the words of both recordings")
    assert texts[0] == BECKETT
    assert texts[1].startswith(DICKENS)
