"""transformers#35444: a cross-attention cache larger than the encoder's output gives other logits, and says nothing.

The models have seeded weights; nothing is downloaded. Exits with 1 once stock caches are right, or ours is not.
"""

import sys

import torch
from transformers import (
    EncoderDecoderCache,
    GenerationMixin,
    StaticCache,
    T5Config,
    T5ForConditionalGeneration,
    WhisperConfig,
    WhisperForConditionalGeneration,
)

from exporter.hf import fixed_capacity_cache

torch.manual_seed(0)
T5 = T5ForConditionalGeneration(T5Config(num_layers=2, decoder_start_token_id=0)).eval()
WHISPER = WhisperForConditionalGeneration(WhisperConfig(encoder_layers=2, decoder_layers=2, max_source_positions=100))
CASES = {"T5": (T5, torch.randint(3, 32000, (2, 20))), "Whisper": (WHISPER.eval(), torch.randn(2, 80, 200))}


def logits(model, source, cache=None):
    settings = {"max_new_tokens": 8, "do_sample": False, "output_logits": True, "return_dict_in_generate": True}
    return torch.stack(GenerationMixin.generate(model, source, cache=cache, **settings).logits)


failed = False
for name, (model, source) in CASES.items():
    config, expected = model.config.get_text_config(decoder=True), logits(model, source)
    stock = EncoderDecoderCache(*(StaticCache(config=config, max_cache_len=size) for size in (32, 128)))
    ours = fixed_capacity_cache(model, max_batch=4, max_enc=128, max_dec=32)
    off, off_ours = ((logits(model, source, cache) - expected).abs().max().item() for cache in (stock, ours))
    print(f"{name}: logits of an oversized StaticCache are off by {off:.3f}, those of ours by {off_ours:.1e}")
    failed |= off < 1e-2 or off_ours > 2e-5 * max(1.0, expected.abs().max().item())
sys.exit(failed)
