"""transformers#46629: a static cache refuses an assistant model as soon as a layer slides; ours takes it.

The models have seeded weights; nothing is downloaded. Exits with 1 once stock caches work, or ours does not.
"""

import sys

import torch
from transformers import Gemma3ForCausalLM, Gemma3TextConfig, StaticCache

from exporter.hf import fixed_capacity_cache

SHAPE = {"vocab_size": 512, "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "head_dim": 16}
SHAPE |= {"num_key_value_heads": 1, "sliding_window": 32, "initializer_range": 0.2}


def gemma3(layers):
    torch.manual_seed(0)
    config = Gemma3TextConfig(**SHAPE, num_hidden_layers=layers)
    return Gemma3ForCausalLM(config).eval()


model, assistant = gemma3(layers=8), gemma3(layers=2)
prompt = torch.randint(3, 512, (1, 20))
settings = {"max_new_tokens": 100, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
greedy = model.generate(prompt, **settings)

stock = StaticCache(config=model.config, max_cache_len=160)
try:
    model.generate(prompt, assistant_model=assistant, cache=stock, **settings)
    sys.exit("StaticCache takes an assistant model now")
except ValueError as refused:
    print(f"StaticCache: {refused}")

cache = fixed_capacity_cache(model, max_dec=160)
assisted = model.generate(prompt, assistant_model=assistant, cache=cache, **settings)
print(f"{cache}: 100 tokens ({len(greedy.unique())} different), three windows, equal: {torch.equal(assisted, greedy)}")
sys.exit(not torch.equal(assisted, greedy))
