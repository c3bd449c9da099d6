"""Gates that a feed-forward layer cuts at a quantile (Gemma 3n), with what is constant in them computed once.

A gate passes what lies above the value that a given share of a normal distribution stays below, its mean and deviation
being those of the row. transformers asks PyTorch for that quantile in every step, through the inverse error function,
for which neither ExecuTorch nor ONNX has an operator.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.distributions import Normal


class CutAtQuantile(nn.Module):
    """`activation(relu(x - mean - deviations * std))`, mean and standard deviation over the last dimension; any shape.

    Args:
        share: of a row, in 0 to 1, both excluded: what is cut off if its values are normal.
    """

    def __init__(self, activation: nn.Module, share: float) -> None:
        super().__init__()
        self.activation = activation
        self.deviations = float(Normal(0.0, 1.0).icdf(torch.tensor(share, dtype=torch.float32)))

    def forward(self, gate: Tensor) -> Tensor:
        wide = gate.float()  # a sum of squares leaves the range of half precision
        centred = wide - wide.mean(-1, keepdim=True)
        deviation = (centred * centred).mean(-1, keepdim=True).sqrt()
        return self.activation(torch.relu(centred - deviation * self.deviations).to(gate.dtype))


def write_out_quantiles(model: nn.Module) -> None:
    """Put the cut of every such layer before its activation, and tell the layer to leave it out."""
    for module in list(model.modules()):
        if hasattr(module, "_gaussian_topk") and module.activation_sparsity > 0:
            module.act_fn = CutAtQuantile(module.act_fn, module.activation_sparsity)
            module.activation_sparsity = 0.0
