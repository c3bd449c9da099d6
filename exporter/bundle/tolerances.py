"""How far numbers may differ from eager PyTorch, and why. The one table; nothing else states a tolerance."""

from __future__ import annotations

from dataclasses import dataclass

from runtime_shims.contract.manifest import ResolvedRecipe


@dataclass(frozen=True)
class Tolerance:
    """Largest difference, relative to the largest reference logit or feature, with the reason it is that large."""

    relative: float
    reason: str

    def absolute(self, largest: float) -> float:
        """The allowed difference for logits or features of this magnitude (never below that of magnitude 1)."""
        return self.relative * max(1.0, largest)


_STEPS = (
    "activations are rounded to 8 bits in every layer, and a step is no small number: a difference in the last bit of "
    "float32 moves some values by a whole step, after which every later layer rounds other values. Two exact "
    "implementations differ as much as either does from float32"
)
_HALVES = (
    "keys and values are rounded to 11 bits in the caches, which eager PyTorch does not do (weights are rounded in "
    "both). Measured: 2e-4 with real weights, 6e-3 with tiny models, whose attention is sharp"
)
_HALF_PRODUCTS = (
    "results of products are rounded to 11 bits, and logits with them; norms, softmax and what adds up over the layers "
    "are float32. Measured: 1e-2 with tiny models, whose attention is sharp"
)
_SOUND = (
    "a value is a quarter of a logarithm to base 10. What is quiet in a loud frame is a small difference of large "
    "products, in the extractor's own transform too; what lies 80 dB below a row's loudest is cut off"
)
TOLERANCES: dict[tuple[str, str], Tolerance] = {
    ("8 bits", "eager"): Tolerance(0.15, _STEPS),
    ("8 bits", "onnx"): Tolerance(0.15, _STEPS),
    ("8 bits", "portable"): Tolerance(0.15, _STEPS),
    ("8 bits", "xnnpack"): Tolerance(0.15, _STEPS),
    ("float16", "eager"): Tolerance(0.01, _HALVES),
    ("float16", "onnx"): Tolerance(0.02, _HALF_PRODUCTS),
    ("float16", "portable"): Tolerance(0.01, _HALVES),
    ("float16", "xnnpack"): Tolerance(0.01, _HALVES),
    ("float32", "eager"): Tolerance(
        2e-5, "the same operations; sums run in another order over slots than over positions"
    ),
    ("float32", "onnx"): Tolerance(
        1e-4,
        "ONNX Runtime blocks sums its own way and approximates exp and tanh; errors add over layers. Measured: 5e-6",
    ),
    ("float32", "portable"): Tolerance(
        1e-4, "ExecuTorch's portable kernels sum in plain order, without blocking; errors add over layers"
    ),
    ("float32", "xnnpack"): Tolerance(
        5e-4,
        "XNNPACK approximates exp, tanh and rsqrt to a few ulp and uses fused multiply-add; errors add over "
        "layers",
    ),
    ("features", "eager"): Tolerance(5e-4, _SOUND),
    ("features", "onnx"): Tolerance(5e-4, _SOUND),
    ("features", "portable"): Tolerance(5e-4, _SOUND),
    ("features", "xnnpack"): Tolerance(5e-4, _SOUND),
}


def tolerance(recipe: ResolvedRecipe, backend: str) -> Tolerance:
    """The row of a recipe's arithmetic and `backend` (`eager` for the rungs before lowering)."""
    return TOLERANCES[recipe.dtype if recipe.quantize == "none" else "8 bits", backend]


def features_tolerance(backend: str) -> Tolerance:
    """The row of a speech front end, whose arithmetic is float32 whatever the recipe says."""
    return TOLERANCES["features", backend]


def rounds(recipe: ResolvedRecipe) -> bool:
    """Whether a program rounds what eager PyTorch does not: tokens that hardly lead the next may then differ."""
    return recipe.quantize != "none" or recipe.dtype != "float32"


def loosest(recipe: ResolvedRecipe) -> Tolerance:
    """The largest row over a recipe's backends: what its golden file allows every program."""
    return max(
        (tolerance(recipe, backend) for backend in recipe.backends), key=lambda row: row.relative
    )
