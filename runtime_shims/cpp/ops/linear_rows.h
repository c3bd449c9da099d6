// Rows to quantized rows, and stored weights back to rows of floats.
#pragma once

#include "byte_vector.h"
#include "linear_integer.h"

namespace fixed_capacity::FIXED_CAPACITY_VARIANT {

inline void quantize_rows(const QuantizeTask& task) {
  const WeightLayout& layout = task.layout;
  const int64_t groups = layout.groups(), group = layout.group;
  for (int64_t row = task.first_row; row < task.last_row; ++row) {
    int8_t* values = task.out + row * layout.row_bytes();
    float* scales = reinterpret_cast<float*>(values + groups * group);
    int32_t* sums = reinterpret_cast<int32_t*>(scales + groups);
    const float* from = task.input + row * layout.width;
    for (int64_t index = 0; index < groups; ++index) {
      const int64_t left = layout.width - index * group;
      const ScaledBytes terms =
          quantize_values(from + index * group, left < group ? left : group, group, values + index * group);
      scales[index] = terms.scale;
      sums[index] = terms.sum;
    }
  }
}

inline float bfloat16_at(const uint8_t* values, int64_t index) {
  uint16_t half;
  __builtin_memcpy(&half, values + index * 2, 2);
  const uint32_t wide = uint32_t{half} << 16;
  float value;
  __builtin_memcpy(&value, &wide, 4);
  return value;
}

// One value of an integer weight matrix: feature `lane` of a panel, one input.
inline float stored_value(const uint8_t* panel, const WeightLayout& layout, int64_t lane, int64_t input) {
  const uint8_t* values = panel + layout.scale_bytes();
  const int64_t group = input / layout.group, quad = input / 4, byte = lane * 4 + input % 4;
  if (layout.bits == 8) {
    const int32_t value = int32_t{values[quad * kPanel * 4 + byte]} - 128;
    return static_cast<float>(value) * bfloat16_at(panel, group * kPanel + lane);
  }
  const uint8_t pair = values[quad / 2 * kPanel * 4 + byte];
  const int32_t value = quad % 2 ? pair >> 4 : pair & 0x0F;
  const float scaled = static_cast<float>(value) * bfloat16_at(panel, group * 2 * kPanel + lane);
  return bfloat16_at(panel, (group * 2 + 1) * kPanel + lane) + scaled;
}

inline void embed_row(const EmbedTask& task, int64_t feature, float* out) {
  const WeightLayout& layout = task.layout;
  const uint8_t* panel = task.weight + feature / kPanel * layout.panel_bytes();
  const int64_t lane = feature % kPanel;
  if (layout.bits == 32) {
    const float* values = reinterpret_cast<const float*>(panel) + lane;
    for (int64_t c = 0; c < layout.width; ++c) out[c] = values[c * kPanel];
    return;
  }
  if (layout.bits == 16) {
    const Half* values = reinterpret_cast<const Half*>(panel) + lane;
    for (int64_t c = 0; c < layout.width; ++c) out[c] = to_float(values[c * kPanel]);
    return;
  }
  for (int64_t c = 0; c < layout.width; ++c) out[c] = stored_value(panel, layout, lane, c);
}

inline void embed(const EmbedTask& task) {
  for (int64_t row = task.first_row; row < task.last_row; ++row)
    embed_row(task, task.indices[row], task.out + row * task.layout.width);
}

}  // namespace fixed_capacity::FIXED_CAPACITY_VARIANT
