"""The other half of transformers#46629: static caches of T5 raise a TypeError with an assistant model; ours takes it.

The models have seeded weights; nothing is downloaded. Exits with 1 once stock caches work, or ours does not.
"""

import sys

import torch
from transformers import EncoderDecoderCache, StaticCache, T5Config, T5ForConditionalGeneration

from exporter.hf import fixed_capacity_cache

SHAPE = {"vocab_size": 1000, "d_model": 128, "d_ff": 256, "num_heads": 4}


def t5(layers):
    torch.manual_seed(0)
    config = T5Config(**SHAPE, num_layers=layers, decoder_start_token_id=0, initializer_factor=4.0)
    return T5ForConditionalGeneration(config).eval()


model, assistant = t5(layers=3), t5(layers=1)
source = torch.randint(3, 1000, (1, 20))
settings = {"max_new_tokens": 24, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
greedy = model.generate(source, **settings)

config = model.config.get_text_config(decoder=True)
stock = EncoderDecoderCache(*(StaticCache(config=config, max_cache_len=size) for size in (60, 20)))
try:
    model.generate(source, assistant_model=assistant, cache=stock, **settings)
    sys.exit("static caches of T5 take an assistant model now")
except TypeError as refused:
    print(f"static T5: {refused}")

cache = fixed_capacity_cache(model, max_enc=64, max_dec=60)
assisted = model.generate(source, assistant_model=assistant, cache=cache, **settings)
print(f"{cache}: {len(greedy[0])} tokens ({len(greedy.unique())} different) equal: {torch.equal(assisted, greedy)}")
sys.exit(not torch.equal(assisted, greedy))
