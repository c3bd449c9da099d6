#include "linear_operators.h"

#include <algorithm>

#include "kernel_variants.h"

namespace fixed_capacity {
namespace {

constexpr int64_t kLargest = int64_t{1} << 31;
constexpr int64_t kMostValues = int64_t{1} << 48;  // of a matrix; its bytes can be computed in 64 bits
constexpr int64_t kRowsPerPart = 48;         // many rows are split into parts of rows, few into parts of panels
constexpr int64_t kQuantizedTogether = 8;    // rows; one alone is not worth a second thread

Refusal refuse(const char* reason) { return Refusal{reason}; }

// Whether `bytes` are `rows` times `row`, whatever the numbers are.
bool are_rows(int64_t bytes, int64_t rows, int64_t row) {
  return rows >= 0 && bytes >= 0 && bytes % row == 0 && bytes / row == rows;
}

}  // namespace

Refusal make_layout(int64_t width, int64_t features, int64_t bits, int64_t group, WeightLayout& layout) {
  if (width < 1 || features < 1 || width >= kLargest || features >= kLargest)
    return refuse("widths and features must be within 1..2^31 - 1");
  if (width > kMostValues / features) return refuse("the weights would be as large as memory addresses reach");
  if (bits != 32 && bits != 16 && bits != 8 && bits != 4) return refuse("weights have 32, 16, 8 or 4 bits");
  if (bits <= 8 && (group < 32 || group % 32 != 0 || group > 4096))
    return refuse("groups of integer weights are multiples of 32 up to 4096");
  layout = {features, width, static_cast<int32_t>(bits), bits <= 8 ? group : 0};
  return {};
}

Refusal check(const LinearArguments& arguments) {
  const WeightLayout& layout = arguments.layout;
  const int64_t row = layout.is_integer() ? layout.row_bytes() : layout.width * 4;
  if (arguments.weight.bytes != layout.bytes()) return refuse("the weights are not of the size their format gives");
  if (!are_rows(arguments.input.bytes, arguments.rows, row))
    return refuse("the inputs are not rows of the weights' width");
  if (arguments.bias.data != nullptr && arguments.bias.bytes != layout.features * 4)
    return refuse("the bias must have one entry per feature");
  return {};
}

Refusal check(const QuantizeRowsArguments& arguments) {
  if (!arguments.layout.is_integer()) return refuse("rows are quantized for integer weights only");
  if (!are_rows(arguments.input.bytes, arguments.rows, arguments.layout.width * 4))
    return refuse("the inputs are not rows of the given width");
  return {};
}

Refusal check(const EmbedArguments& arguments) {
  if (arguments.weight.bytes != arguments.layout.bytes())
    return refuse("the weights are not of the size their format gives");
  for (int64_t index = 0; index < arguments.count; ++index)
    if (arguments.indices[index] < 0 || arguments.indices[index] >= arguments.layout.features)
      return refuse("an index is negative or past the last embedding");
  return {};
}

void run(const LinearArguments& arguments, float* out, const ParallelLoop& loop) {
  const int64_t rows = arguments.rows, panels = arguments.layout.panels();
  const auto* bias = reinterpret_cast<const float*>(arguments.bias.data);
  const LinearTask task{arguments.input.data, arguments.weight.data, bias, out, arguments.layout, 0, rows, 0, panels};
  if (rows == 0) return;
  if (rows >= kRowsPerPart * loop.threads) {
    const int64_t parts = (rows + kRowsPerPart - 1) / kRowsPerPart;
    return run_parallel(loop, parts, [&](int64_t begin, int64_t end) {
      LinearTask part = task;
      part.first_row = begin * kRowsPerPart;
      part.last_row = std::min(end * kRowsPerPart, rows);
      best_variant().linear(part);
    });
  }
  run_parallel(loop, panels, [&](int64_t begin, int64_t end) {
    LinearTask part = task;
    part.first_panel = begin;
    part.last_panel = end;
    best_variant().linear(part);
  });
}

void run(const QuantizeRowsArguments& arguments, int8_t* out, const ParallelLoop& loop) {
  const int64_t rows = arguments.rows;
  const QuantizeTask task{reinterpret_cast<const float*>(arguments.input.data), out, arguments.layout, 0, rows};
  if (rows < 2 * kQuantizedTogether) return best_variant().quantize(task);
  const int64_t parts = (rows + kQuantizedTogether - 1) / kQuantizedTogether;
  run_parallel(loop, parts, [&](int64_t begin, int64_t end) {
    QuantizeTask part = task;
    part.first_row = begin * kQuantizedTogether;
    part.last_row = std::min(end * kQuantizedTogether, rows);
    best_variant().quantize(part);
  });
}

void run(const EmbedArguments& arguments, float* out, const ParallelLoop& loop) {
  const EmbedTask task{arguments.indices, arguments.weight.data, out, arguments.layout, 0, arguments.count};
  if (arguments.count < 2) return best_variant().embed(task);
  run_parallel(loop, arguments.count, [&](int64_t begin, int64_t end) {
    EmbedTask part = task;
    part.first_row = begin;
    part.last_row = end;
    best_variant().embed(part);
  });
}

}  // namespace fixed_capacity
