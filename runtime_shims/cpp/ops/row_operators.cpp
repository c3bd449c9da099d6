#include "row_operators.h"

#include <cmath>
#include <initializer_list>

namespace fixed_capacity {
namespace {

constexpr int64_t kLanes = 16;
constexpr int64_t kSerialElements = 16384;  // below this a second thread costs more than it saves

Refusal refuse(const char* reason) { return Refusal{reason}; }

// Runs over rows, on one thread while there is little to do.
template <typename Body>
void over_rows(const ParallelLoop& loop, int64_t rows, int64_t width, const Body& body) {
  if (rows * width <= kSerialElements) return body(0, rows);
  run_parallel(loop, rows, body);
}

// Partial sums side by side, so that the compiler uses vectors without reordering a sum.
float mean_square(const float* row, int64_t width) {
  float partial[kLanes] = {};
  int64_t column = 0;
  for (; column + kLanes <= width; column += kLanes)
    for (int64_t lane = 0; lane < kLanes; ++lane) partial[lane] += row[column + lane] * row[column + lane];
  for (; column < width; ++column) partial[0] += row[column] * row[column];
  float total = 0.0F;
  for (const float part : partial) total += part;
  return total / static_cast<float>(width);
}

void normalize_row(const RmsNormArguments& arguments, int64_t row, float* out) {
  const int64_t width = arguments.width;
  const float* from = arguments.input + row * width;
  float* to = out + row * width;
  const float scale = 1.0F / std::sqrt(mean_square(from, width) + static_cast<float>(arguments.epsilon));
  if (arguments.weight == nullptr) {
    for (int64_t column = 0; column < width; ++column) to[column] = from[column] * scale;
    return;
  }
  for (int64_t column = 0; column < width; ++column) to[column] = from[column] * scale * arguments.weight[column];
}

void rotate_row(const float* from, const float* cosine, const float* sine, int64_t size, float* to) {
  const int64_t half = size / 2;
  for (int64_t index = 0; index < half; ++index)
    to[index] = from[index] * cosine[index] - from[index + half] * sine[index];
  for (int64_t index = half; index < size; ++index)
    to[index] = from[index] * cosine[index] + from[index - half] * sine[index];
}

}  // namespace

Refusal check(const RmsNormArguments& arguments) {
  if (arguments.width < 1 || arguments.rows < 0) return refuse("rows to normalize must have at least 1 column");
  return {};
}

Refusal check(const RotateArguments& arguments) {
  const ConstFloatView& input = arguments.input;
  if (!input.has_rank(4) || !arguments.cosine.has_rank(4) || !arguments.sine.has_rank(4))
    return refuse("what is rotated, cosines and sines must have 4 dimensions");
  if (input.sizes[3] % 2 != 0) return refuse("the size of what is rotated must be even");
  for (const ConstFloatView& table : {arguments.cosine, arguments.sine}) {
    const bool fits = (table.sizes[0] == 1 || table.sizes[0] == input.sizes[0]) && table.sizes[1] == 1 &&
                      table.sizes[2] == input.sizes[2] && table.sizes[3] == input.sizes[3];
    if (!fits) return refuse("cosines and sines must have one row per token, for one or every batch row");
  }
  return {};
}

void run(const RmsNormArguments& arguments, float* out, const ParallelLoop& loop) {
  over_rows(loop, arguments.rows, arguments.width, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) normalize_row(arguments, row, out);
  });
}

void run(const RotateArguments& arguments, float* out, const ParallelLoop& loop) {
  const int64_t heads = arguments.input.sizes[1], tokens = arguments.input.sizes[2], size = arguments.input.sizes[3];
  const auto table_row = [&](const ConstFloatView& table, int64_t batch, int64_t token) {
    return table.data + ((table.sizes[0] == 1 ? 0 : batch) * tokens + token) * size;
  };
  over_rows(loop, arguments.input.sizes[0] * heads * tokens, size, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t token = row % tokens, batch = row / tokens / heads;
      rotate_row(arguments.input.data + row * size, table_row(arguments.cosine, batch, token),
                 table_row(arguments.sine, batch, token), size, out + row * size);
    }
  });
}

}  // namespace fixed_capacity
