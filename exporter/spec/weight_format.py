"""Which weights of a model are stored in how many bits, and what that costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime_shims.contract.manifest import ResolvedRecipe

if TYPE_CHECKING:
    from torch import nn

INT8_CACHES = "int8-weights-kv"
LINEAR_BITS = {"8da8w": 8, "8da4w": 4, INT8_CACHES: 8}
"""Bits of the layers' weights; activations are rounded to 8 bits in every step."""
EMBEDDING_BITS = (8, 4)
DEFAULT_GROUP = 32
GROUPS = tuple(range(32, 257, 32))
WHOLE_FEATURE = 0
"""The size of a group that says: all weights of a feature share a scale, and all activations of a row."""
ONNX_GROUPS = (WHOLE_FEATURE, 32, 64, 128, 256)
FLOAT_BITS = {"float32": 32, "float16": 16}
PANEL = 32
"""Features that are stored together; the last panel of a matrix is filled up."""


def cache_type(recipe: ResolvedRecipe) -> str:
    """The type in which a recipe's caches are kept."""
    return "int8" if recipe.quantize == INT8_CACHES else recipe.dtype


def is_torchaos(recipe: ResolvedRecipe) -> bool:
    """Whether integers are those of torchao, which XNNPACK takes with core operators; else ours, or ONNX Runtime's."""
    return recipe.quantize != "none" and recipe.attention == "portable" and "onnx" not in recipe.backends


@dataclass(frozen=True)
class WeightFormat:
    """Bits of the layers' matrices, and of embedding and head; `group` inputs share a scale, None: all of a feature.

    `for_onnx`: stored as ONNX's operators read them: features one after another, scales in float32.
    """

    linear_bits: int
    embedding_bits: int
    group: int | None = None
    for_onnx: bool = False

    @property
    def is_quantized(self) -> bool:
        return self.linear_bits <= 8

    @classmethod
    def of(cls, recipe: ResolvedRecipe) -> WeightFormat:
        """The format that a recipe asks for."""
        if recipe.quantize == "none":
            bits = FLOAT_BITS[recipe.dtype]
            return cls(bits, bits)
        embedding_bits, for_onnx = recipe.embedding_bits or EMBEDDING_BITS[0], "onnx" in recipe.backends
        return cls(LINEAR_BITS[recipe.quantize], embedding_bits, recipe.group_size, for_onnx)

    def matrix_bytes(self, shape: tuple[int, int], bits: int) -> int:
        """Bytes of a matrix `[N, C]`: values, and what a group of a feature has beside them."""
        features, width = shape
        if not self.is_quantized:
            return features * width * bits // 8
        if self.group is None:
            return features * (width * bits // 8 + 4)
        groups = -(-width // self.group)
        if self.for_onnx:
            zeros = -(-groups // 2) if bits == 4 else 0
            return features * (groups * (self.group * bits // 8 + 4) + zeros)
        terms = 4 if bits == 4 else 2  # bytes of a scale, and of a minimum with 4 bits
        return -(-features // PANEL) * PANEL * groups * (self.group * bits // 8 + terms)


@dataclass(frozen=True)
class WeightSizes:
    """Shapes `[N, C]` of the matrices that a format applies to, shared ones once, and all learned values."""

    linear: tuple[tuple[int, int], ...]
    embedding: tuple[tuple[int, int], ...]
    parameter_count: int

    def __add__(self, other: WeightSizes) -> WeightSizes:
        """The sizes of two models that share nothing."""
        count = self.parameter_count + other.parameter_count
        return WeightSizes(self.linear + other.linear, self.embedding + other.embedding, count)

    def bytes_in(self, weights: WeightFormat) -> int:
        """Bytes of all weights; those of no matrix here stay in float32."""
        matrices = [(shape, weights.linear_bits) for shape in self.linear]
        matrices += [(shape, weights.embedding_bits) for shape in self.embedding]
        rest = self.parameter_count - sum(shape[0] * shape[1] for shape, _ in matrices)
        return 4 * rest + sum(weights.matrix_bytes(shape, bits) for shape, bits in matrices)


MIXERS = ("modality_router", "prediction_coefs", "correction_coefs")
"""Products of Gemma 3n that say how much of each of its streams goes where. No format applies to them: their errors
reach every value of a stream, and integers in whole panels would take more bytes than floats do."""


def is_linear(module: nn.Module) -> bool:
    """A product with a weight matrix: `nn.Linear`, or GPT-2's transposed `Conv1D`."""
    from torch import nn
    from transformers.pytorch_utils import Conv1D

    return isinstance(module, nn.Linear | Conv1D)


def products(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """The products with a weight matrix that a format applies to, with their names, in model order; the head too."""
    return [
        (name, module)
        for name, module in model.named_modules()
        if is_linear(module) and name.rpartition(".")[2] not in MIXERS
    ]


def matrix_shape(module: nn.Module) -> tuple[int, int]:
    """`[N, C]` of a linear layer or an embedding."""
    from transformers.pytorch_utils import Conv1D

    rows, columns = module.weight.shape
    return (columns, rows) if isinstance(module, Conv1D) else (rows, columns)


def word_tables(model: nn.Module) -> list[nn.Module]:
    """The embeddings of words: the model's input, and what some layers look up for themselves (Gemma 4)."""
    from torch import nn

    embedding, head = model.get_input_embeddings(), model.get_output_embeddings()
    known = [embedding.weight, head.weight]
    tables = [embedding]
    for module in model.modules():
        scales = isinstance(module, nn.Embedding) and type(module) is type(embedding) and hasattr(module, "embed_scale")
        if scales and not any(module.weight is weight for weight in known):
            tables.append(module)
            known.append(module.weight)
    return tables


def weight_sizes(model: nn.Module, *, head_is_tied: bool) -> WeightSizes:
    """Sizes of a model (without memory will do); with `head_is_tied` False the head counts on its own."""
    embedding, head = model.get_input_embeddings(), model.get_output_embeddings()
    tied = head.weight is embedding.weight
    count = sum(parameter.numel() for parameter in model.parameters())
    count += head.weight.numel() if tied and not head_is_tied else 0
    tables = word_tables(model) + ([] if tied and head_is_tied else [head])
    known = {id(embedding.weight), id(head.weight)}
    linear = []
    for _, module in products(model):
        if id(module.weight) not in known:
            known.add(id(module.weight))
            linear.append(matrix_shape(module))
    return WeightSizes(tuple(linear), tuple(matrix_shape(table) for table in tables), count)
