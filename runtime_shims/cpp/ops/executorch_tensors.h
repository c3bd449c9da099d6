// What every ExecuTorch kernel here does with its output tensor.
#pragma once

#include <executorch/runtime/core/exec_aten/util/tensor_util.h>
#include <executorch/runtime/kernel/kernel_runtime_context.h>

#include <array>

namespace fixed_capacity {

// Fails the call; nothing has been written.
inline executorch::aten::Tensor& fail(executorch::runtime::KernelRuntimeContext& context, const char* reason,
                                      executorch::aten::Tensor& out) {
  ET_LOG(Error, "fixed_capacity: %s", reason);
  context.fail(executorch::runtime::Error::InvalidArgument);
  return out;
}

// Gives the output its shape; false when its type or the memory planned for it does not allow that.
template <size_t Rank>
bool shape_output(executorch::aten::Tensor& out, executorch::aten::ScalarType type,
                  const std::array<int64_t, Rank>& sizes, size_t rank = Rank) {
  std::array<executorch::aten::SizesType, Rank> shape{};
  for (size_t axis = 0; axis < rank; ++axis) shape[axis] = static_cast<executorch::aten::SizesType>(sizes[axis]);
  return out.scalar_type() == type &&
         executorch::runtime::resize_tensor(out, {shape.data(), rank}) == executorch::runtime::Error::Ok;
}

}  // namespace fixed_capacity
