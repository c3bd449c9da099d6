"""The model of the capacity task: eight layers of SmolLM2-135M's geometry with seeded weights and a long context."""

from __future__ import annotations

from pathlib import Path

from tests.benchmarks.harness.checkpoints import made_once

LAYERS = 8
VOCABULARY = 4096
MAX_POSITIONS = 1 << 17


def capacity_checkpoint(work: Path) -> Path:
    """The checkpoint, made once."""

    def build(target: Path) -> None:
        import torch
        from transformers import LlamaConfig, LlamaForCausalLM

        torch.manual_seed(0)
        config = LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=576,
            intermediate_size=1536,
            num_hidden_layers=LAYERS,
            num_attention_heads=9,
            num_key_value_heads=3,
            max_position_embeddings=MAX_POSITIONS,
            tie_word_embeddings=True,
            bos_token_id=1,
            eos_token_id=2,
        )
        LlamaForCausalLM(config).save_pretrained(target)

    return made_once(work / f"capacity-{LAYERS}-layers", build)


def text(length: int) -> list[int]:
    """A prompt of ordinary tokens."""
    return [3 + place % (VOCABULARY - 96) for place in range(length)]
