#include "c_api.h"
#include "c_api_refusal.h"
#include "linear_operators.h"
#include "thread_pool_loop.h"

namespace fixed_capacity {
namespace {

BytesView view(const fixed_capacity_bytes& tensor) {
  return {static_cast<const uint8_t*>(tensor.data), tensor.bytes};
}

// Completes `arguments` with the layout, then checks and runs; 0, or -1 with the reason kept.
template <typename Arguments, typename Element>
int32_t check_and_run(Arguments& arguments, const fixed_capacity_layout& given, Element* out) {
  Refusal refusal = make_layout(given.width, given.features, given.bits, given.group, arguments.layout);
  if (!refusal) refusal = check(arguments);
  if (refusal) {
    last_refusal = refusal.reason;
    return -1;
  }
  run(arguments, out, thread_pool_loop());
  return 0;
}

}  // namespace
}  // namespace fixed_capacity

using namespace fixed_capacity;

int32_t fixed_capacity_linear(const fixed_capacity_bytes tensors[4], const fixed_capacity_layout* layout,
                              int64_t rows) {
  LinearArguments arguments{view(tensors[0]), view(tensors[1]), view(tensors[2]), rows, {}};
  return check_and_run(arguments, *layout, static_cast<float*>(tensors[3].data));
}

int32_t fixed_capacity_quantize_rows(const fixed_capacity_bytes tensors[2], const fixed_capacity_layout* layout,
                                     int64_t rows) {
  QuantizeRowsArguments arguments{view(tensors[0]), rows, {}};
  return check_and_run(arguments, *layout, static_cast<int8_t*>(tensors[1].data));
}

int32_t fixed_capacity_embed(const fixed_capacity_bytes tensors[3], const fixed_capacity_layout* layout,
                             int64_t count) {
  EmbedArguments arguments{static_cast<const int64_t*>(tensors[0].data), count, view(tensors[1]), {}};
  return check_and_run(arguments, *layout, static_cast<float*>(tensors[2].data));
}
