// Products with stored weights, on borrowed tensors; weight_layout.h tells how weights are stored.
//
// Shape legend: R rows (the product of all leading dimensions), C inputs, N output features.
#pragma once

#include <cstdint>

#include "linear_task.h"
#include "parallel_loop.h"
#include "tensor_view.h"

namespace fixed_capacity {

// A tensor of any element type, seen as bytes.
struct BytesView {
  const uint8_t* data = nullptr;
  int64_t bytes = 0;
};

struct LinearArguments {
  BytesView input;                // float [R, C], or quantized rows [R, row_bytes]
  BytesView weight;
  BytesView bias;                 // float [N], or nothing
  int64_t rows = 0;
  WeightLayout layout;
};

struct QuantizeRowsArguments {
  BytesView input;  // float [R, C]
  int64_t rows = 0;
  WeightLayout layout;  // of the weights that the rows will meet; its features do not matter
};

struct EmbedArguments {
  const int64_t* indices = nullptr;
  int64_t count = 0;
  BytesView weight;
  WeightLayout layout;
};

// The layout that an operator's integers describe; refused unless it is one of weight_layout.h.
Refusal make_layout(int64_t width, int64_t features, int64_t bits, int64_t group, WeightLayout& layout);

Refusal check(const LinearArguments& arguments);
Refusal check(const QuantizeRowsArguments& arguments);
Refusal check(const EmbedArguments& arguments);

// `out` is float [R, N], bytes [R, row_bytes], float [count, C].
void run(const LinearArguments& arguments, float* out, const ParallelLoop& loop);
void run(const QuantizeRowsArguments& arguments, int8_t* out, const ParallelLoop& loop);
void run(const EmbedArguments& arguments, float* out, const ParallelLoop& loop);

}  // namespace fixed_capacity
