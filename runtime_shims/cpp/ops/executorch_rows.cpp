// Norms and rotations as ExecuTorch kernels. All arithmetic is behind row_operators.h.
#include <executorch/extension/kernel_util/make_boxed_from_unboxed_functor.h>

#include <optional>

#include "executorch_tensors.h"
#include "row_operators.h"
#include "thread_pool_loop.h"

namespace fixed_capacity {
namespace {

using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::runtime::Error;
using executorch::runtime::KernelRuntimeContext;

bool is_plain_float(const Tensor& tensor) {
  const auto order = tensor.dim_order();
  return tensor.dim() >= 1 && tensor.scalar_type() == ScalarType::Float &&
         executorch::runtime::is_contiguous_dim_order(order.data(), order.size());
}

ConstFloatView view(const Tensor& tensor) {
  ConstFloatView result{tensor.const_data_ptr<float>(), static_cast<int32_t>(tensor.dim()), {}};
  for (int32_t axis = 0; axis < result.rank && axis < 4; ++axis) result.sizes[axis] = tensor.size(axis);
  return result;
}

Tensor& rms_norm(KernelRuntimeContext& context, const Tensor& input, const std::optional<Tensor>& weight,
                 double epsilon, Tensor& out) {
  if (!is_plain_float(input) || (weight && !is_plain_float(*weight)))
    return fail(context, "norms take contiguous float32", out);
  const int64_t width = input.size(input.dim() - 1);
  if (weight && weight->numel() != width) return fail(context, "a norm's weight must have one entry per column", out);
  const RmsNormArguments arguments{input.const_data_ptr<float>(), weight ? weight->const_data_ptr<float>() : nullptr,
                                   width == 0 ? 0 : static_cast<int64_t>(input.numel()) / width, width, epsilon};
  if (const Refusal refusal = check(arguments)) return fail(context, refusal.reason, out);
  if (out.scalar_type() != ScalarType::Float || executorch::runtime::resize_tensor(out, input.sizes()) != Error::Ok)
    return fail(context, "the output tensor cannot hold the normalized rows", out);
  run(arguments, out.mutable_data_ptr<float>(), thread_pool_loop());
  return out;
}

Tensor& rotate(KernelRuntimeContext& context, const Tensor& input, const Tensor& cosine, const Tensor& sine,
               Tensor& out) {
  if (!is_plain_float(input) || !is_plain_float(cosine) || !is_plain_float(sine))
    return fail(context, "rotations take contiguous float32", out);
  const RotateArguments arguments{view(input), view(cosine), view(sine)};
  if (const Refusal refusal = check(arguments)) return fail(context, refusal.reason, out);
  if (out.scalar_type() != ScalarType::Float || executorch::runtime::resize_tensor(out, input.sizes()) != Error::Ok)
    return fail(context, "the output tensor cannot hold the rotated heads", out);
  run(arguments, out.mutable_data_ptr<float>(), thread_pool_loop());
  return out;
}

}  // namespace
}  // namespace fixed_capacity

EXECUTORCH_LIBRARY(fixed_capacity, "rms_norm.out", fixed_capacity::rms_norm);
EXECUTORCH_LIBRARY(fixed_capacity, "rotate.out", fixed_capacity::rotate);
