// Caches of 8 bits by their definition: [D] values, then their scale as a float.
#pragma once

#include <cstring>

#include "cache_view.h"
#include "tensors.h"

namespace fixed_capacity::testing {

using Bytes = Tensor<CacheByte>;  // [..., D + 4]

inline void set_position(CacheByte* to, const float* from, int64_t dim) {
  float largest = 0.0F;
  for (int64_t index = 0; index < dim; ++index) largest = std::max(largest, std::abs(from[index]));
  const float scale = largest / 127.0F, inverse = 127.0F / largest;
  for (int64_t index = 0; index < dim; ++index)
    to[index].value = largest == 0.0F ? int8_t{0} : static_cast<int8_t>(std::nearbyint(from[index] * inverse));
  std::memcpy(to + dim, &scale, sizeof(scale));
}

inline Bytes bytes_of(const Floats& floats) {
  std::vector<int64_t> sizes = floats.sizes();
  const int64_t dim = sizes.back(), positions = static_cast<int64_t>(floats.data().size()) / dim;
  sizes.back() += kScaleBytes;
  Bytes result(sizes);
  for (int64_t position = 0; position < positions; ++position)
    set_position(&result.data()[static_cast<size_t>(position * (dim + kScaleBytes))],
                 &floats.data()[static_cast<size_t>(position * dim)], dim);
  return result;
}

inline Floats floats_of(const Bytes& bytes) {
  std::vector<int64_t> sizes = bytes.sizes();
  sizes.back() -= kScaleBytes;
  Floats result(sizes);
  const int64_t dim = sizes.back();
  for (size_t entry = 0; entry < result.data().size(); ++entry) {
    const int64_t position = static_cast<int64_t>(entry) / dim, column = static_cast<int64_t>(entry) % dim;
    const CacheByte* from = &bytes.data()[static_cast<size_t>(position * (dim + kScaleBytes))];
    float scale;
    std::memcpy(&scale, from + dim, sizeof(scale));
    result.data()[entry] = static_cast<float>(from[column].value) * scale;
  }
  return result;
}

}  // namespace fixed_capacity::testing
