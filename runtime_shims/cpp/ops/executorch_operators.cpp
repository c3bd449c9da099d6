// The operators as ExecuTorch kernels (`fixed_capacity::*.out`): views of the runtime's tensors, the shape of the
// output, and the runtime's thread pool. All arithmetic is behind operators.h.
#include <executorch/extension/kernel_util/make_boxed_from_unboxed_functor.h>

#include <optional>

#include "executorch_tensors.h"
#include "operators.h"
#include "thread_pool_loop.h"

namespace fixed_capacity {
namespace {

using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::runtime::KernelRuntimeContext;

constexpr const char* kWrongType = "tensors must be contiguous float32 (caches also float16 or int8), lengths int64";

// Turns runtime tensors into views and remembers whether all had the expected type and a row-major layout.
class ViewMaker {
 public:
  bool all_valid() const { return all_valid_; }

  ConstFloatView floats(const Tensor& tensor) {
    return view<const float>(tensor, ScalarType::Float, static_cast<const float*>(tensor.const_data_ptr()));
  }
  ConstCacheView cache(const Tensor& tensor) {
    if (tensor.scalar_type() == ScalarType::Half)
      return view<const Half>(tensor, ScalarType::Half, static_cast<const Half*>(tensor.const_data_ptr()));
    if (tensor.scalar_type() == ScalarType::Char)
      return view<const CacheByte>(tensor, ScalarType::Char, static_cast<const CacheByte*>(tensor.const_data_ptr()));
    return floats(tensor);
  }
  CacheView mutable_cache(Tensor& tensor) {
    if (tensor.scalar_type() == ScalarType::Half)
      return view<Half>(tensor, ScalarType::Half, static_cast<Half*>(tensor.mutable_data_ptr()));
    if (tensor.scalar_type() == ScalarType::Char)
      return view<CacheByte>(tensor, ScalarType::Char, static_cast<CacheByte*>(tensor.mutable_data_ptr()));
    return view<float>(tensor, ScalarType::Float, static_cast<float*>(tensor.mutable_data_ptr()));
  }
  ConstIndexView indices(const Tensor& tensor) {
    return view<const int64_t>(tensor, ScalarType::Long, static_cast<const int64_t*>(tensor.const_data_ptr()));
  }
  std::optional<ConstFloatView> table(const std::optional<Tensor>& tensor) {
    if (!tensor) return std::nullopt;
    return floats(*tensor);
  }

 private:
  template <typename Element>
  TensorView<Element> view(const Tensor& tensor, ScalarType type, Element* data) {
    TensorView<Element> result;
    const auto order = tensor.dim_order();
    all_valid_ = all_valid_ && tensor.scalar_type() == type &&
                 executorch::runtime::is_contiguous_dim_order(order.data(), order.size());
    result.data = data;
    result.rank = static_cast<int32_t>(tensor.dim());
    for (int32_t axis = 0; axis < result.rank && axis < 4; ++axis) result.sizes[axis] = tensor.size(axis);
    return result;
  }

  bool all_valid_ = true;
};

// Refuses before anything is written, or shapes `out` as [b, T, H, Dv] and runs.
template <typename Arguments>
Tensor& attend_into(KernelRuntimeContext& context, const ViewMaker& views, const Arguments& arguments,
                    const ConstFloatView& query, int64_t value_dim, Tensor& out) {
  if (!views.all_valid()) return fail(context, kWrongType, out);
  if (const Refusal refusal = check(arguments)) return fail(context, refusal.reason, out);
  if (!shape_output<4>(out, ScalarType::Float, {query.sizes[0], query.sizes[2], query.sizes[1], value_dim}))
    return fail(context, "the output tensor cannot hold the result", out);
  run(arguments, static_cast<float*>(out.mutable_data_ptr()), thread_pool_loop());
  return out;
}

Tensor& cached_attention(KernelRuntimeContext& context, const Tensor& query, const Tensor& key, const Tensor& value,
                         Tensor& key_cache, Tensor& value_cache, const Tensor& positions,
                         const Tensor& step_lengths, const std::optional<Tensor>& bias_table, int64_t bias_origin,
                         std::optional<int64_t> window, double scale, std::optional<double> softcap,
                         const std::optional<Tensor>& sinks, Tensor& out) {
  ViewMaker views;
  const CachedAttentionArguments arguments{
      views.floats(query), views.floats(key), views.floats(value), views.mutable_cache(key_cache),
      views.mutable_cache(value_cache), views.indices(positions), views.indices(step_lengths),
      {views.table(bias_table), bias_origin, window, scale, softcap, views.table(sinks)}};
  return attend_into(context, views, arguments, arguments.query, arguments.value.sizes[3], out);
}

Tensor& shared_attention(KernelRuntimeContext& context, const Tensor& query, const Tensor& key_cache,
                         const Tensor& value_cache, const Tensor& positions, const Tensor& step_lengths,
                         const std::optional<Tensor>& bias_table, int64_t bias_origin, std::optional<int64_t> window,
                         double scale, std::optional<double> softcap, Tensor& out) {
  ViewMaker views;
  const SharedAttentionArguments arguments{views.floats(query), views.cache(key_cache), views.cache(value_cache),
                                           views.indices(positions), views.indices(step_lengths),
                                           {views.table(bias_table), bias_origin, window, scale, softcap}};
  return attend_into(context, views, arguments, arguments.query, arguments.value_cache.sizes[3], out);
}

Tensor& cross_attention(KernelRuntimeContext& context, const Tensor& query, const Tensor& key_cache,
                        const Tensor& value_cache, const Tensor& lengths, double scale,
                        std::optional<double> softcap, Tensor& out) {
  ViewMaker views;
  const CrossAttentionArguments arguments{views.floats(query), views.cache(key_cache), views.cache(value_cache),
                                          views.indices(lengths),
                                          {std::nullopt, 0, std::nullopt, scale, softcap}};
  return attend_into(context, views, arguments, arguments.query, arguments.value_cache.sizes[3], out);
}

Tensor& merged_attention(KernelRuntimeContext& context, const Tensor& query, const Tensor& key, const Tensor& value,
                         Tensor& key_cache, Tensor& value_cache, const Tensor& cross_key_cache,
                         const Tensor& cross_value_cache, const Tensor& positions, const Tensor& step_lengths,
                         const Tensor& cross_lengths, std::optional<int64_t> window, double scale,
                         std::optional<double> softcap, Tensor& out) {
  ViewMaker views;
  const CachedAttentionArguments step{
      views.floats(query), views.floats(key), views.floats(value), views.mutable_cache(key_cache),
      views.mutable_cache(value_cache), views.indices(positions), views.indices(step_lengths),
      {std::nullopt, 0, window, scale, softcap}};
  const MergedAttentionArguments arguments{step, views.cache(cross_key_cache), views.cache(cross_value_cache),
                                           views.indices(cross_lengths)};
  return attend_into(context, views, arguments, step.query, step.value.sizes[3], out);
}

Tensor& encoder_attention(KernelRuntimeContext& context, const Tensor& query, const Tensor& key,
                          const Tensor& value, const Tensor& lengths, const std::optional<Tensor>& bias_table,
                          int64_t bias_origin, double scale, std::optional<double> softcap, Tensor& out) {
  ViewMaker views;
  const EncoderAttentionArguments arguments{
      views.floats(query), views.floats(key), views.floats(value), views.indices(lengths),
      {views.table(bias_table), bias_origin, std::nullopt, scale, softcap}};
  return attend_into(context, views, arguments, arguments.query, arguments.value.sizes[3], out);
}

Tensor& write_cross(KernelRuntimeContext& context, const Tensor& key, const Tensor& value, Tensor& key_cache,
                    Tensor& value_cache, const Tensor& lengths, Tensor& out) {
  ViewMaker views;
  const WriteCrossArguments arguments{views.floats(key), views.floats(value), views.mutable_cache(key_cache),
                                      views.mutable_cache(value_cache), views.indices(lengths)};
  if (!views.all_valid()) return fail(context, kWrongType, out);
  if (const Refusal refusal = check(arguments)) return fail(context, refusal.reason, out);
  if (!shape_output<1>(out, ScalarType::Long, {arguments.key.sizes[0]}))
    return fail(context, "the output tensor cannot hold the lengths", out);
  run(arguments, static_cast<int64_t*>(out.mutable_data_ptr()), thread_pool_loop());
  return out;
}

}  // namespace
}  // namespace fixed_capacity

EXECUTORCH_LIBRARY(fixed_capacity, "cached_attention.out", fixed_capacity::cached_attention);
EXECUTORCH_LIBRARY(fixed_capacity, "shared_attention.out", fixed_capacity::shared_attention);
EXECUTORCH_LIBRARY(fixed_capacity, "cross_attention.out", fixed_capacity::cross_attention);
EXECUTORCH_LIBRARY(fixed_capacity, "merged_attention.out", fixed_capacity::merged_attention);
EXECUTORCH_LIBRARY(fixed_capacity, "encoder_attention.out", fixed_capacity::encoder_attention);
EXECUTORCH_LIBRARY(fixed_capacity, "write_cross.out", fixed_capacity::write_cross);
