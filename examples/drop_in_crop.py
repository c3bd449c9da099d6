"""What followed transformers#46629: a dynamic sliding cache, once full, cannot be cropped to a length; ours can.

The model has seeded weights; nothing is downloaded. Exits with 1 once the stock cache works, or ours does not.
"""

import sys

import torch
from transformers import DynamicCache, MistralConfig, MistralForCausalLM

from exporter.hf import fixed_capacity_cache

torch.manual_seed(0)
SHAPE = {"vocab_size": 512, "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4}
CONFIG = MistralConfig(**SHAPE, num_key_value_heads=2, num_hidden_layers=2, sliding_window=16)
model, tokens = MistralForCausalLM(CONFIG).eval(), torch.randint(3, 512, (1, 40))
expected = model(tokens).logits[:, 37:]

stock, ours = DynamicCache(config=CONFIG), fixed_capacity_cache(model, max_dec=64)
for cache in (stock, ours):
    cache.activate_past_recording()
    model(tokens, cache=cache)
try:
    stock.crop(37)
    sys.exit("DynamicCache crops a full window to a length now")
except RuntimeError as refused:
    print(f"DynamicCache: {refused}")

ours.crop(37)
off = (model(tokens[:, 37:], cache=ours).logits - expected).abs().max().item()
print(f"{ours}: cropped to 37 of 40 tokens; logits of the same three after it are off by {off:.1e}")
sys.exit(off > 2e-5)
