// Caches as the operator core sees them: contiguous keys or values in single or half precision, or in 8 bits.
//
// Arithmetic is in single precision whatever a cache holds. What is written is rounded to the nearest value, halves to
// even. Beyond the largest finite half (65504) it becomes that, infinity included, and NaN stays NaN. In 8 bits each
// position of a head has a scale of its own, the largest magnitude / 127, which follows its values: [D] int8, then a
// float, so that a position is still one row of memory. Infinity and NaN make all of a position NaN.
#pragma once

#include "tensor_view.h"

namespace fixed_capacity {

// The bits of an IEEE 754 number of 16 bits.
struct Half {
  uint16_t bits;
};

// A byte of an 8-bit cache: a value, or a part of a scale.
struct CacheByte {
  int8_t value;
};

enum class CacheType : int32_t { float32, float16, int8 };

inline constexpr int64_t kScaleBytes = 4;  // after the values of a position, in 8 bits

constexpr CacheType cache_type(const float*) { return CacheType::float32; }
constexpr CacheType cache_type(const Half*) { return CacheType::float16; }
constexpr CacheType cache_type(const CacheByte*) { return CacheType::int8; }

// Bytes of one position of one head with `dim` values.
constexpr int64_t position_bytes(CacheType type, int64_t dim) {
  if (type == CacheType::int8) return dim + kScaleBytes;
  return type == CacheType::float16 ? dim * 2 : dim * 4;
}

// The last size is that of a head, whatever lies behind its values.
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
    if (type == CacheType::int8) sizes[3] -= kScaleBytes;
  }

  bool has_rank(int32_t expected) const { return rank == expected; }
};

using CacheView = AnyCacheView<void>;
using ConstCacheView = AnyCacheView<const void>;

inline ConstCacheView read_only(const CacheView& cache) {
  ConstCacheView view;
  view.data = cache.data;
  view.type = cache.type;
  view.rank = cache.rank;
  for (int axis = 0; axis < 4; ++axis) view.sizes[axis] = cache.sizes[axis];
  return view;
}

}  // namespace fixed_capacity
