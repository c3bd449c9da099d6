// Rows to quantized rows, and stored weights back to rows of floats.
#pragma once

#include "linear_integer.h"

namespace fixed_capacity::FIXED_CAPACITY_VARIANT {

// The largest |x|, NaN above all numbers: without its sign, a float orders like the integer of the same bits.
inline float largest_magnitude(const float* values, int64_t count) {
  IntVec largest = {};
  int64_t index = 0;
  for (; index + kLanes <= count; index += kLanes) {
    const IntVec bits = (IntVec)load(values + index) & 0x7FFFFFFF;
    largest = largest > bits ? largest : bits;
  }
  int32_t most = 0;
  for (int lane = 0; lane < kLanes; ++lane) most = largest[lane] > most ? largest[lane] : most;
  for (; index < count; ++index) {
    int32_t bits;
    __builtin_memcpy(&bits, values + index, 4);
    bits &= 0x7FFFFFFF;
    most = bits > most ? bits : most;
  }
  float result;
  __builtin_memcpy(&result, &most, 4);
  return result;
}

// Rounds to the nearest integer, halves to even: adding 1.5 * 2^52 leaves no room for a fraction. The sum is in double
// precision so that no compiler fuses it with the product that gave `value`: every variant rounds that product alike.
inline int32_t rounded(float value) {
  const double shifted = double{value} + 6755399441055744.0;
  int64_t bits;
  __builtin_memcpy(&bits, &shifted, 8);
  return static_cast<int32_t>(bits);
}

inline void quantize_group(const float* from, int64_t live, int64_t group, int8_t* to, float& scale, int32_t& sum) {
  const float largest = largest_magnitude(from, live);
  const float inverse = 127.0F / largest;
  scale = largest / 127.0F;
  sum = 0;
  // Zeros, and what is too small to be scaled, become zeros. So do infinity and NaN: their scale says what they were.
  if (!(inverse > 0.0F && inverse <= 3.402823466e38F)) live = 0;
  for (int64_t index = 0; index < live; ++index) {
    const int32_t value = rounded(from[index] * inverse);
    to[index] = static_cast<int8_t>(value);
    sum += value;
  }
  for (int64_t index = live; index < group; ++index) to[index] = 0;
}

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
      quantize_group(from + index * group, left < group ? left : group, group, values + index * group, scales[index],
                     sums[index]);
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
