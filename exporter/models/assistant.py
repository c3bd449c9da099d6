"""Drafting by an assistant over the caches of the model that it assists (Gemma 4's multi-token prediction).

An assistant has queries only. It reads what the model has written of tokens that stand: a query counts as one at the
last position written, so that what was rolled back is as invisible to it as to the model. Its rotation is that of the
next position, in every draft of a round.

Shape legend: b live rows, C width of the model's hidden states, c of the assistant's, V vocabulary, N clusters,
M words of a cluster, k clusters looked at, W = k * M words.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from exporter.models.activations import write_out_gelu_tanh

from .fixed_capacity_model import FixedCapacityModel, attention_modules, drop_padding_idx, use_operator

LOWEST_LOGIT = -1e9
"""Of words that an assistant does not look at: finite, and never drawn."""


class AssistantDraft(nn.Module):
    """`draft(input_ids[b,1], hidden[b,C], positions[b], step_lengths[b]) -> logits[b,1,V], next_hidden[b,C]`.

    `hidden` belongs to the token before `input_ids`, `positions` is that of the last token written; a row of step
    length 0 is idle. Nothing is written.
    """

    def __init__(self, root: FixedCapacityModel, assistant: PreTrainedModel) -> None:
        super().__init__()
        spec, plan = root.plan.assistant, root.plan
        if spec is None:
            raise ValueError("the plan has no assistant")
        self.root, self.kinds = root, tuple(spec.donors)
        root.assistant = assistant.eval().requires_grad_(False)
        drop_padding_idx(assistant)
        write_out_gelu_tanh(assistant)
        use_operator(assistant)
        if assistant.masked_embedding is not None:
            root.clusters = ClusteredHead(assistant)
            assistant.masked_embedding = None
        for _, module in attention_modules(assistant):
            cache = next(
                index for index, entry in enumerate(plan.self_caches) if entry.layer == spec.donors[module.layer_type]
            )
            window = plan.self_caches[cache].window
            root.bind_attention(
                module, "shared", root.self_layers[cache], own_window=None if window is None else window + 1
            )

    def forward(
        self, input_ids: Tensor, hidden: Tensor, positions: Tensor, step_lengths: Tensor
    ) -> tuple[Tensor, Tensor]:
        root, assistant = self.root, cast("PreTrainedModel", self.root.assistant)
        root.step.begin(positions=positions, step_lengths=step_lengths)
        embedded_b1C = root.model.get_input_embeddings()(input_ids)
        inputs = assistant.pre_projection(torch.cat((embedded_b1C, hidden[:, None]), -1))
        states = assistant.model(
            inputs_embeds=inputs,
            attention_mask=dict.fromkeys(self.kinds),
            position_ids=positions[:, None] + 1,
            shared_kv_states=dict.fromkeys(self.kinds, (None, None)),
            use_cache=False,
        ).last_hidden_state
        logits = assistant.lm_head(states) if root.clusters is None else root.clusters(states)
        return logits.to(torch.float32), assistant.post_projection(states)[:, 0]


class ClusteredHead(nn.Module):
    """Logits `[b, 1, V]` of the words in the clusters nearest to a state; other words get `LOWEST_LOGIT`.

    Reads the rows of those words alone. The head is tied to the assistant's table of words, which scales what it gives.
    """

    def __init__(self, assistant: PreTrainedModel) -> None:
        super().__init__()
        head, config = assistant.masked_embedding, assistant.config.get_text_config()
        self.centroids, self.table = head.centroids, assistant.model.embed_tokens
        self.chosen, self.vocab_size = int(head.centroid_intermediate_top_k), int(head.vocab_size)
        self.scale = float(config.hidden_size**-0.5)
        order_NM = head.token_ordering.long().view(head.num_centroids, head.vocab_size_per_centroid)
        self.register_buffer("words_NM", order_NM.contiguous())

    def forward(self, states_b1c: Tensor) -> Tensor:
        nearest_b1k = torch.topk(self.centroids(states_b1c), self.chosen, dim=-1).indices
        words_bW = nn.functional.embedding(nearest_b1k[:, 0], self.words_NM).flatten(1)
        rows_bWc = self.table(words_bW) * self.scale
        picked_b1W = torch.bmm(states_b1c, rows_bWc.transpose(1, 2))
        lowest_b1V = picked_b1W.new_full((states_b1c.shape[0], 1, self.vocab_size), LOWEST_LOGIT)
        return lowest_b1V.scatter(2, words_bW[:, None], picked_b1W)
