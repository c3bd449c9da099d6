"""How often a model's first N layers, under its own final norm and head, name the token that the whole model names.

    python -m tests.benchmarks.speculation.first_layers CHECKPOINT [CHECKPOINT ...]

This is the acceptance that drafting by the first N layers would see in greedy decoding, before anything is built: one
forward over text that the model wrote gives the hidden states after every layer. Beside it stands the most that it
could gain: the speed-up of `reference/adaptive.py` with the draft's cost c taken as the share of weights that its steps
read (a lower bound: attention and calls come on top), the best K of 1 to 4, and a step that verifies K drafts as cheap
as one token.
"""

from __future__ import annotations

import argparse

import torch
from torch import nn
from transformers import AutoModelForCausalLM, AutoTokenizer

from runtime_shims.reference.adaptive import SpeedModel
from tests.benchmarks.speculation.prompts import PROMPTS

NEW_TOKENS = 200
MOST_DRAFTS = 4


def written(model: nn.Module, tokenizer) -> list[tuple[torch.Tensor, int]]:
    """Greedy texts of the benchmark's prompts, and where the prompt ends in each."""
    texts = []
    for prompt in PROMPTS.values():
        ids = tokenizer(prompt, return_tensors="pt").input_ids
        texts.append((model.generate(ids, max_new_tokens=NEW_TOKENS, do_sample=False), ids.shape[1]))
    return texts


def agreement(model: nn.Module, texts: list[tuple[torch.Tensor, int]]) -> list[float]:
    """For N = 1 ... L - 1, the share of new tokens on which the first N layers agree with all L."""
    equal, count = torch.zeros(model.config.num_hidden_layers - 1), 0
    for tokens, start in texts:
        states = model(tokens, output_hidden_states=True).hidden_states
        last = model.lm_head(states[-1][:, start - 1 : -1]).argmax(-1)
        for layer, state in enumerate(states[1:-1]):
            early = model.lm_head(model.model.norm(state[:, start - 1 : -1])).argmax(-1)
            equal[layer] += (early == last).sum()
        count += last.numel()
    return (equal / count).tolist()


def cost(model: nn.Module, layers: int) -> float:
    """Weights that a step of the first `layers` layers reads, of those that a whole step reads."""
    head = model.lm_head.weight.numel()
    layer = sum(parameter.numel() for parameter in model.model.layers[0].parameters())
    return (head + layers * layer) / (head + model.config.num_hidden_layers * layer)


def best_speed_up(acceptance: float, draft_cost: float) -> float:
    model = SpeedModel((1.0,) * (MOST_DRAFTS + 1), draft_cost)
    return max(model.speed_up(drafts, acceptance) for drafts in range(1, MOST_DRAFTS + 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoints", nargs="+")
    for checkpoint in parser.parse_args().checkpoints:
        tokenizer = AutoTokenizer.from_pretrained(checkpoint)
        model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32).eval()
        with torch.no_grad():
            shares = agreement(model, written(model, tokenizer))
        print(f"{checkpoint}\nlayers  acceptance  cost c  at most")
        for layers, share in enumerate(shares, start=1):
            draft_cost = cost(model, layers)
            print(f"{layers:6}  {share:10.3f}  {draft_cost:6.2f}  {best_speed_up(share, draft_cost):6.2f}x")


if __name__ == "__main__":
    main()
