// What a decoder layer does to its rows between two products: norms and rotations. One pass each, nothing to plan.
//
// Shape legend: R rows, C row width, b batch, H heads, T tokens, D head size.
#pragma once

#include <cstdint>

#include "parallel_loop.h"
#include "tensor_view.h"

namespace fixed_capacity {

struct RmsNormArguments {
  const float* input = nullptr;   // [R, C]
  const float* weight = nullptr;  // [C], or none
  int64_t rows = 0, width = 0;
  double epsilon = 0.0;
};

struct RotateArguments {
  ConstFloatView input;        // [b, H, T, D]
  ConstFloatView cosine, sine; // [b or 1, 1, T, D]
};

Refusal check(const RmsNormArguments& arguments);
Refusal check(const RotateArguments& arguments);

// `out` is float [R, C]: x / sqrt(mean(x^2) + epsilon) * weight.
void run(const RmsNormArguments& arguments, float* out, const ParallelLoop& loop);

// `out` is float [b, H, T, D]: x * cosine + concat(-x[D/2:], x[:D/2]) * sine.
void run(const RotateArguments& arguments, float* out, const ParallelLoop& loop);

}  // namespace fixed_capacity
