// Products with stored weights as ExecuTorch kernels. All arithmetic is behind linear_operators.h.
#include <executorch/extension/kernel_util/make_boxed_from_unboxed_functor.h>

#include <optional>

#include "executorch_tensors.h"
#include "linear_operators.h"
#include "thread_pool_loop.h"

namespace fixed_capacity {
namespace {

using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::runtime::KernelRuntimeContext;

constexpr size_t kMostDimensions = 4;
using Shape = std::array<int64_t, kMostDimensions>;

bool is_plain(const Tensor& tensor) {
  const auto order = tensor.dim_order();
  return tensor.dim() >= 1 && tensor.dim() <= static_cast<ssize_t>(kMostDimensions) &&
         executorch::runtime::is_contiguous_dim_order(order.data(), order.size());
}

BytesView bytes_of(const Tensor& tensor) {
  return {static_cast<const uint8_t*>(tensor.const_data_ptr()), static_cast<int64_t>(tensor.nbytes())};
}

// The sizes of `tensor` with another last one.
Shape with_last(const Tensor& tensor, int64_t last) {
  Shape shape{};
  for (ssize_t axis = 0; axis < tensor.dim(); ++axis) shape[static_cast<size_t>(axis)] = tensor.size(axis);
  shape[static_cast<size_t>(tensor.dim() - 1)] = last;
  return shape;
}

int64_t rows_of(const Tensor& tensor) {
  int64_t rows = 1;
  for (ssize_t axis = 0; axis + 1 < tensor.dim(); ++axis) rows *= tensor.size(axis);
  return rows;
}

ScalarType weight_type(const WeightLayout& layout) {
  if (layout.is_integer()) return ScalarType::Byte;
  return layout.bits == 16 ? ScalarType::Half : ScalarType::Float;
}

Tensor& dense(KernelRuntimeContext& context, const Tensor& input, const Tensor& weight,
              const std::optional<Tensor>& bias, int64_t width, int64_t features, int64_t bits, int64_t group,
              Tensor& out) {
  LinearArguments arguments;
  if (const Refusal refusal = make_layout(width, features, bits, group, arguments.layout))
    return fail(context, refusal.reason, out);
  const ScalarType input_type = arguments.layout.is_integer() ? ScalarType::Byte : ScalarType::Float;
  if (!is_plain(input) || !is_plain(weight) || input.scalar_type() != input_type ||
      weight.scalar_type() != weight_type(arguments.layout) || (bias && bias->scalar_type() != ScalarType::Float))
    return fail(context, "inputs and weights must be contiguous and of the types their format gives", out);
  arguments.input = bytes_of(input);
  arguments.weight = bytes_of(weight);
  if (bias) arguments.bias = bytes_of(*bias);
  arguments.rows = rows_of(input);
  if (const Refusal refusal = check(arguments)) return fail(context, refusal.reason, out);
  if (!shape_output(out, ScalarType::Float, with_last(input, features), static_cast<size_t>(input.dim())))
    return fail(context, "the output tensor cannot hold the product", out);
  run(arguments, static_cast<float*>(out.mutable_data_ptr()), thread_pool_loop());
  return out;
}

Tensor& quantize_rows(KernelRuntimeContext& context, const Tensor& input, int64_t group, Tensor& out) {
  QuantizeRowsArguments arguments;
  if (!is_plain(input) || input.scalar_type() != ScalarType::Float)
    return fail(context, "inputs must be contiguous float32", out);
  if (const Refusal refusal = make_layout(input.size(input.dim() - 1), 1, 8, group, arguments.layout))
    return fail(context, refusal.reason, out);
  arguments.input = bytes_of(input);
  arguments.rows = rows_of(input);
  if (const Refusal refusal = check(arguments)) return fail(context, refusal.reason, out);
  const Shape shape = with_last(input, arguments.layout.row_bytes());
  if (!shape_output(out, ScalarType::Byte, shape, static_cast<size_t>(input.dim())))
    return fail(context, "the output tensor cannot hold the quantized rows", out);
  run(arguments, static_cast<int8_t*>(out.mutable_data_ptr()), thread_pool_loop());
  return out;
}

Tensor& embed(KernelRuntimeContext& context, const Tensor& indices, const Tensor& weight, int64_t width,
              int64_t features, int64_t bits, int64_t group, Tensor& out) {
  EmbedArguments arguments;
  if (const Refusal refusal = make_layout(width, features, bits, group, arguments.layout))
    return fail(context, refusal.reason, out);
  if (!is_plain(indices) || !is_plain(weight) || indices.dim() >= static_cast<ssize_t>(kMostDimensions) ||
      indices.scalar_type() != ScalarType::Long || weight.scalar_type() != weight_type(arguments.layout))
    return fail(context, "indices must be contiguous int64 and weights of the type their format gives", out);
  arguments.indices = indices.const_data_ptr<int64_t>();
  arguments.count = static_cast<int64_t>(indices.numel());
  arguments.weight = bytes_of(weight);
  if (const Refusal refusal = check(arguments)) return fail(context, refusal.reason, out);
  Shape shape = with_last(indices, indices.size(indices.dim() - 1));
  shape[static_cast<size_t>(indices.dim())] = width;
  if (!shape_output(out, ScalarType::Float, shape, static_cast<size_t>(indices.dim() + 1)))
    return fail(context, "the output tensor cannot hold the embeddings", out);
  run(arguments, static_cast<float*>(out.mutable_data_ptr()), thread_pool_loop());
  return out;
}

}  // namespace
}  // namespace fixed_capacity

EXECUTORCH_LIBRARY(fixed_capacity, "dense.out", fixed_capacity::dense);
EXECUTORCH_LIBRARY(fixed_capacity, "quantize_rows.out", fixed_capacity::quantize_rows);
EXECUTORCH_LIBRARY(fixed_capacity, "embed.out", fixed_capacity::embed);
