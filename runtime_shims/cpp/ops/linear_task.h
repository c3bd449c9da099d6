// One part of a product with a stored weight matrix: some rows by some panels of features.
//
// Shape legend: R rows (batch x tokens), C inputs, N output features.
#pragma once

#include <cstdint>

#include "weight_layout.h"

namespace fixed_capacity {

struct LinearTask {
  const void* input = nullptr;    // floating-point weights: float [R, C]; integers: quantized rows (weight_layout.h)
  const uint8_t* weight = nullptr;
  const float* bias = nullptr;    // [N] or none
  float* out = nullptr;           // [R, N]
  WeightLayout layout;
  int64_t first_row = 0, last_row = 0;      // rows first_row..last_row-1
  int64_t first_panel = 0, last_panel = 0;  // panels first_panel..last_panel-1
};

// Rows of floats [R, C] to quantized rows: value = round(x * 127 / m), scale = m / 127, m the largest |x| of a group;
// all values are 0 where 127 / m is not a finite number above 0.
struct QuantizeTask {
  const float* input = nullptr;
  int8_t* out = nullptr;
  WeightLayout layout;
  int64_t first_row = 0, last_row = 0;
};

// Features `indices` of a weight matrix as rows of floats [R, C]: an embedding lookup.
struct EmbedTask {
  const int64_t* indices = nullptr;
  const uint8_t* weight = nullptr;
  float* out = nullptr;
  WeightLayout layout;
  int64_t first_row = 0, last_row = 0;
};

}  // namespace fixed_capacity
