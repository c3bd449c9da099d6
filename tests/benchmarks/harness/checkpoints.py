"""What all rivals read: dense fp32 checkpoints with the same weights, and a sound file of one form."""

from __future__ import annotations

import wave
from pathlib import Path

from tests.benchmarks.harness.words import word
from tests.support.real import load_gguf, real_weights

SAMPLING_RATE = 16_000
AUDIO_SECONDS = 20.0


def packaged_gguf(model: str, work: Path) -> Path:
    """The packaged GGUF file of `gemma3` or `smollm2`."""
    return real_weights().smollm2_gguf() if model == "smollm2" else real_weights().gemma3_270m_gguf(work)


def dense_checkpoint(model: str, work: Path) -> Path:
    """A plain fp32 checkpoint of the packaged GGUF file, with its tokenizer."""

    def convert(target: Path) -> None:
        loaded, tokenizer = load_gguf(packaged_gguf(model, work))
        loaded.config.__dict__.pop("quantization_config", None)
        loaded.save_pretrained(target)
        tokenizer.save_pretrained(target)

    return made_once(work / f"{model}-dense", convert)


def t5_checkpoint(work: Path) -> Path:
    """T5-small's geometry with seeded weights, and a tokenizer of one word per token, as converters ask for one.

    Embeddings are scaled down: at their drawn size a tied head answers with the token it was given, and equal
    answers would prove nothing.
    """

    def convert(target: Path) -> None:
        import torch

        from exporter.spec.model_source import resolve_source
        from exporter.spec.recipe import Recipe

        model = resolve_source(Recipe(model="t5-small", random_weights=True)).load_model()
        with torch.no_grad():
            model.shared.weight.mul_(0.02)
        model.save_pretrained(target)
        word_tokenizer(model.config.vocab_size).save_pretrained(target)

    return made_once(work / "t5-small-seeded", convert)


def word_tokenizer(size: int):
    """Token `n` is the word `wn`; 0, 1 and 2 are T5's padding, end of sequence and unknown."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {word(number): number for number in range(size)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token=word(2)))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token=word(0), eos_token=word(1), unk_token=word(2))


def speech_window(recording: int, work: Path) -> Path:
    """The first 20 seconds of a packaged recording as 16-bit mono WAV at 16 kHz."""
    import numpy as np

    from runtime_shims.reference.audio import AudioCut, read_mono

    def convert(target: Path) -> None:
        source = real_weights().speech_wavs()[recording]
        samples = read_mono(source, AudioCut(0.0, AUDIO_SECONDS), SAMPLING_RATE)
        with wave.open(str(target), "wb") as file:
            file.setparams((1, 2, SAMPLING_RATE, 0, "NONE", "not compressed"))
            file.writeframes((np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes())

    return made_once(work / f"speech-{recording}.wav", convert)


def made_once(target: Path, make) -> Path:
    """`target`, made aside and renamed if it is not there yet."""
    real_weights()  # puts the module that knows how on the path
    from weights.packaged import made_once as make_once

    return make_once(target, make)
