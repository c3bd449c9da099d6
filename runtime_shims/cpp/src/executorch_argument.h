// What ExecuTorch is given in a call.
#pragma once

#include <executorch/runtime/core/evalue.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>

namespace fixed_capacity {

// One argument of a method: a tensor header over borrowed memory, made anew for each call without an allocation.
class ExecutorchArgument {
 public:
  using ScalarType = executorch::aten::ScalarType;

  ExecutorchArgument(ScalarType type, const void* data, std::initializer_list<int64_t> sizes)
      : ExecutorchArgument(type, data, sizes.begin(), sizes.end()) {}

  template <typename Iterator>
  ExecutorchArgument(ScalarType type, const void* data, Iterator first, Iterator last) {
    ssize_t rank = 0;
    for (; first != last && rank < kMostDims; ++first, ++rank) {
      sizes_[static_cast<size_t>(rank)] = static_cast<TensorImpl::SizesType>(*first);
      order_[static_cast<size_t>(rank)] = static_cast<TensorImpl::DimOrderType>(rank);
    }
    TensorImpl::StridesType stride = 1;
    for (ssize_t axis = rank - 1; axis >= 0; --axis) {
      strides_[static_cast<size_t>(axis)] = stride;
      stride *= sizes_[static_cast<size_t>(axis)];
    }
    // The runtime copies inputs into its own memory and never writes through this pointer.
    impl_.emplace(type, rank, sizes_.data(), const_cast<void*>(data), order_.data(), strides_.data());
  }
  ExecutorchArgument(const ExecutorchArgument&) = delete;
  ExecutorchArgument& operator=(const ExecutorchArgument&) = delete;

  executorch::runtime::EValue value() {
    return executorch::runtime::EValue(executorch::aten::Tensor(&*impl_));
  }

 private:
  using TensorImpl = executorch::aten::TensorImpl;

  static constexpr ssize_t kMostDims = 8;
  std::array<TensorImpl::SizesType, kMostDims> sizes_{};
  std::array<TensorImpl::DimOrderType, kMostDims> order_{};
  std::array<TensorImpl::StridesType, kMostDims> strides_{};
  std::optional<TensorImpl> impl_;
};

}  // namespace fixed_capacity
