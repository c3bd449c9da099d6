"""Pipelines of transformers over a bundle: translation, summaries, text generation, speech.

    export-model t5-small --max-batch 4 -o t5.bundle
    python examples/pipelines.py translation_en_to_de t5.bundle "The house is wonderful." "Good morning."

    export-model whisper-tiny.en -o whisper.bundle
    python examples/pipelines.py automatic-speech-recognition whisper.bundle speech.wav

The tokenizer and the feature extractor are those that the bundle carries; with Whisper sound may be longer than the 30
seconds that the program hears at once. Whatever else a pipeline takes goes to `generate`: max_new_tokens, do_sample,
streamer.
"""

from __future__ import annotations

import sys

from exporter.hf import pipeline
from runtime_shims.contract.errors import FixedCapacityError


def answers(task: str, bundle: str, inputs: list[str]) -> list[str]:
    """One text for each text or sound file; as many at once as the bundle holds."""
    run = pipeline(task, bundle)
    options = {"return_timestamps": True} if run.model.config.model_type == "whisper" else {}
    found = run(inputs, batch_size=run.model.session.limits.max_batch, **options)
    rows = (answer[0] if isinstance(answer, list) else answer for answer in found)
    return [next(text for name, text in row.items() if "text" in name) for row in rows]


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit("usage: pipelines.py TASK BUNDLE TEXT_OR_FILE..., with a task such as translation")
    try:
        print(*answers(sys.argv[1], sys.argv[2], sys.argv[3:]), sep="\n")
    except FixedCapacityError as error:
        sys.exit(f"pipelines.py: {error}")
