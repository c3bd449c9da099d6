"""The module that every method of a program wraps: a transformers model, its caches, and the step being run.

One root per bundle: methods share its parameters and cache buffers by fully qualified name, which is how
ExecuTorch matches state across the methods of a program.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.cache_utils import Cache

from exporter.cache.attention_binding import (
    AttentionBinding,
    BiasTable,
    Role,
    StepContext,
    bind,
    positions_bT,
    use_operator,
)
from exporter.cache.cache_layer import CacheLayer
from exporter.cache.spellings import spelling_for
from exporter.models.activations import write_out_gelu_tanh
from exporter.models.experts import use_static_experts
from exporter.models.own_attention import replace_own_attention
from exporter.models.quantile_gates import write_out_quantiles
from exporter.spec.capacity_plan import CapacityPlan
from exporter.weights.special_row import write_out_special_rows
from runtime_shims.contract.manifest import Attention


class FixedCapacityModel(nn.Module):
    """A model with its cache layers, bound to one spelling of the operator.

    The logits of requested rows only are computed by a pre-hook on the output head, so whatever the model does
    around its head (scales, biases, soft-caps) is kept as it is.
    """

    def __init__(self, model: PreTrainedModel, plan: CapacityPlan, attention: Attention) -> None:
        super().__init__()
        self.model = model.eval().requires_grad_(False)
        self.plan = plan
        self.step = StepContext()
        self.spelling = spelling_for(attention)
        self.self_layers = nn.ModuleList(self._cache_layer(entry) for entry in plan.self_caches)
        self.cross_layers = nn.ModuleList(self._cache_layer(entry) for entry in plan.cross_caches)
        self.bias_tables = nn.ModuleDict()
        self.assistant: PreTrainedModel | None = None
        self.clusters: nn.Module | None = None
        drop_padding_idx(model)
        write_out_quantiles(model)
        write_out_gelu_tanh(model)
        write_out_special_rows(model)
        replace_own_attention(model)
        use_operator(model)
        use_static_experts(model)
        model.get_output_embeddings().register_forward_pre_hook(self._keep_requested_rows)

    def _cache_layer(self, entry) -> CacheLayer:
        shape = (self.plan.max_batch, entry.kv_heads, entry.key_dim, entry.value_dim)
        dtype = getattr(torch, entry.dtype)
        return CacheLayer(entry.geometry, shape, dtype=dtype, flat=self.spelling.flat_caches, window=entry.window)

    def _keep_requested_rows(self, head: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        rows_br = self.step.logit_rows
        if rows_br is None:
            return inputs
        hidden_bTC = inputs[0]
        index = rows_br[:, :, None].expand(-1, -1, hidden_bTC.shape[2])
        self.step.hidden = torch.gather(hidden_bTC, 1, index)
        return (self.step.hidden,)

    def bind_attention(
        self,
        module: nn.Module,
        role: Role,
        layer: CacheLayer | None = None,
        bias: BiasTable | None = None,
        own_window: int | None = None,
    ) -> None:
        bind(module, AttentionBinding(role, self.spelling, self.step, layer, bias, own_window))

    def bind_merged(self, module: nn.Module, layer: CacheLayer, cross: CacheLayer) -> None:
        bind(module, AttentionBinding("merged", self.spelling, self.step, layer, cross=cross))

    def self_cache(self) -> Cache:
        return Cache(layers=list(self.self_layers))


def drop_padding_idx(model: nn.Module) -> None:
    """`padding_idx` only affects gradients, and ExecuTorch's embedding fusion does not match it."""
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            module.padding_idx = None


def attention_modules(root: nn.Module) -> list[tuple[str, nn.Module]]:
    """The modules that call transformers' attention interface, with their names, in model order."""
    return [
        (name, module)
        for name, module in root.named_modules()
        if type(module).__name__.endswith("Attention") and hasattr(module, "scaling")
    ]


class PositionTable(nn.Module):
    """A position table read at the step's own per-row positions, in place of a model's `embed_positions`.

    Models that derive decoder positions from one scalar past length cannot serve rows of different lengths.
    Returns `[b, T, C]`. Padding tokens past the table read its last row. Most models pass the step's tokens, Marian
    their shape.
    """

    def __init__(self, table: nn.Embedding, step: StepContext) -> None:
        super().__init__()
        self.table = table
        self.step = step
        self.offset = int(getattr(table, "offset", 0))

    def forward(self, tokens: Tensor | tuple[int, int], *args, **kwargs) -> Tensor:
        step_tokens = tokens.shape[1] if isinstance(tokens, Tensor) else tokens[1]
        rows = self.table.weight.shape[0] - self.offset
        positions = positions_bT(self.step, step_tokens, rows) + self.offset
        return nn.functional.embedding(positions, self.table.weight)
