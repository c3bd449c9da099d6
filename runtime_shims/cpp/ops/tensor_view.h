// Borrowed, contiguous, row-major tensors: what the operator core sees of any runtime's tensors.
#pragma once

#include <cstdint>

namespace fixed_capacity {

template <typename Element>
struct TensorView {
  Element* data = nullptr;
  int32_t rank = 0;
  int64_t sizes[4] = {0, 0, 0, 0};

  bool has_rank(int32_t expected) const { return rank == expected; }
};

using FloatView = TensorView<float>;
using ConstFloatView = TensorView<const float>;
using ConstIndexView = TensorView<const int64_t>;

// Why arguments were refused; `none` when they were not. The text is for logs and tests.
struct [[nodiscard]] Refusal {
  const char* reason = nullptr;

  explicit operator bool() const { return reason != nullptr; }
};

}  // namespace fixed_capacity
