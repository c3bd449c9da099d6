// Caches as the operator core sees them: contiguous keys or values in single or half precision.
//
// Arithmetic is in single precision whatever a cache holds. What is written is rounded to the nearest value, halves to
// even; beyond the largest finite half (65504) it becomes that, infinity included, and NaN stays NaN.
#pragma once

#include "tensor_view.h"

namespace fixed_capacity {

// The bits of an IEEE 754 number of 16 bits.
struct Half {
  uint16_t bits;
};

enum class CacheType : int32_t { float32, float16 };

constexpr CacheType cache_type(const float*) { return CacheType::float32; }
constexpr CacheType cache_type(const Half*) { return CacheType::float16; }

constexpr int64_t element_bytes(CacheType type) { return type == CacheType::float16 ? 2 : 4; }

template <typename Memory>
struct AnyCacheView {
  Memory* data = nullptr;
  CacheType type = CacheType::float32;
  int32_t rank = 0;
  int64_t sizes[4] = {0, 0, 0, 0};

  AnyCacheView() = default;

  template <typename Element>
  AnyCacheView(const TensorView<Element>& view) : data(view.data), type(cache_type(view.data)), rank(view.rank) {
    for (int axis = 0; axis < 4; ++axis) sizes[axis] = view.sizes[axis];
  }

  bool has_rank(int32_t expected) const { return rank == expected; }
};

using CacheView = AnyCacheView<void>;
using ConstCacheView = AnyCacheView<const void>;

}  // namespace fixed_capacity
