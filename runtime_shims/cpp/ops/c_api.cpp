#include "c_api.h"

#include "c_api_refusal.h"
#include "kernel_variants.h"
#include "operators.h"
#include "thread_pool_loop.h"

namespace fixed_capacity {

thread_local const char* last_refusal = "";

namespace {

template <typename Element>
TensorView<Element> view(const fixed_capacity_tensor& tensor) {
  TensorView<Element> result{static_cast<Element*>(tensor.data), tensor.rank, {}};
  for (int axis = 0; axis < 4; ++axis) result.sizes[axis] = tensor.sizes[axis];
  return result;
}

template <typename View>
View cache(const fixed_capacity_tensor& tensor) {
  switch (static_cast<CacheType>(tensor.cache_type)) {
    case CacheType::float16: return view<Half>(tensor);
    case CacheType::int8: return view<CacheByte>(tensor);
    default: return view<float>(tensor);
  }
}

AttentionOptions options_of(const fixed_capacity_options& given) {
  AttentionOptions options;
  if (given.bias_table != nullptr) options.bias_table = view<const float>(*given.bias_table);
  options.bias_origin = given.bias_origin;
  if (given.window != nullptr) options.window = *given.window;
  options.scale = given.scale;
  if (given.softcap != nullptr) options.softcap = *given.softcap;
  if (given.sinks != nullptr) options.sinks = view<const float>(*given.sinks);
  return options;
}

template <typename Arguments, typename Element>
int32_t check_and_run(const Arguments& arguments, Element* out) {
  if (const Refusal refusal = check(arguments)) {
    last_refusal = refusal.reason;
    return -1;
  }
  run(arguments, out, thread_pool_loop());
  return 0;
}

}  // namespace
}  // namespace fixed_capacity

using namespace fixed_capacity;

int32_t fixed_capacity_cached_attention(const fixed_capacity_tensor tensors[8],
                                        const fixed_capacity_options* options) {
  const CachedAttentionArguments arguments{
      view<const float>(tensors[0]), view<const float>(tensors[1]), view<const float>(tensors[2]),
      cache<CacheView>(tensors[3]), cache<CacheView>(tensors[4]), view<const int64_t>(tensors[5]),
      view<const int64_t>(tensors[6]), options_of(*options)};
  return check_and_run(arguments, static_cast<float*>(tensors[7].data));
}

int32_t fixed_capacity_shared_attention(const fixed_capacity_tensor tensors[6],
                                        const fixed_capacity_options* options) {
  const SharedAttentionArguments arguments{view<const float>(tensors[0]), cache<ConstCacheView>(tensors[1]),
                                           cache<ConstCacheView>(tensors[2]), view<const int64_t>(tensors[3]),
                                           view<const int64_t>(tensors[4]), options_of(*options)};
  return check_and_run(arguments, static_cast<float*>(tensors[5].data));
}

int32_t fixed_capacity_cross_attention(const fixed_capacity_tensor tensors[5],
                                       const fixed_capacity_options* options) {
  const CrossAttentionArguments arguments{view<const float>(tensors[0]), cache<ConstCacheView>(tensors[1]),
                                          cache<ConstCacheView>(tensors[2]), view<const int64_t>(tensors[3]),
                                          options_of(*options)};
  return check_and_run(arguments, static_cast<float*>(tensors[4].data));
}

int32_t fixed_capacity_merged_attention(const fixed_capacity_tensor tensors[11],
                                        const fixed_capacity_options* options) {
  const CachedAttentionArguments step{
      view<const float>(tensors[0]), view<const float>(tensors[1]), view<const float>(tensors[2]),
      cache<CacheView>(tensors[3]), cache<CacheView>(tensors[4]), view<const int64_t>(tensors[7]),
      view<const int64_t>(tensors[8]), options_of(*options)};
  const MergedAttentionArguments arguments{step, cache<ConstCacheView>(tensors[5]), cache<ConstCacheView>(tensors[6]),
                                           view<const int64_t>(tensors[9])};
  return check_and_run(arguments, static_cast<float*>(tensors[10].data));
}

int32_t fixed_capacity_encoder_attention(const fixed_capacity_tensor tensors[5],
                                         const fixed_capacity_options* options) {
  const EncoderAttentionArguments arguments{view<const float>(tensors[0]), view<const float>(tensors[1]),
                                            view<const float>(tensors[2]), view<const int64_t>(tensors[3]),
                                            options_of(*options)};
  return check_and_run(arguments, static_cast<float*>(tensors[4].data));
}

int32_t fixed_capacity_write_cross(const fixed_capacity_tensor tensors[6]) {
  const WriteCrossArguments arguments{view<const float>(tensors[0]), view<const float>(tensors[1]),
                                      cache<CacheView>(tensors[2]), cache<CacheView>(tensors[3]),
                                      view<const int64_t>(tensors[4])};
  return check_and_run(arguments, static_cast<int64_t*>(tensors[5].data));
}

const char* fixed_capacity_last_refusal(void) { return last_refusal; }

const char* fixed_capacity_kernel_variant(void) { return best_variant().name; }
