// What both tile shapes share: visible ranges, contiguous runs of the ring, relative bias, the result.
#pragma once

#include "byte_vector.h"
#include "half_vector.h"
#include "tile_task.h"

namespace fixed_capacity::FIXED_CAPACITY_VARIANT {

inline constexpr float kLowest = -1e30F;  // a finite stand-in for minus infinity

// Key positions one query token sees: begin..end-1.
struct KeyRange {
  int64_t begin, end;
};

inline KeyRange keys_of_token(const TileTask& task, int32_t token) {
  KeyRange range{task.begin, task.end};
  if (!task.causal) return range;
  const int64_t query = task.first_position + token;
  if (query + 1 < range.end) range.end = query + 1;
  if (task.window <= query && query - task.window + 1 > range.begin) range.begin = query - task.window + 1;
  if (range.end < range.begin) range.end = range.begin;
  return range;
}

// Keys seen by any token of the tile: later tokens see later keys, so the ends come from the first and the last.
inline KeyRange keys_of_tile(const TileTask& task) {
  return {keys_of_token(task, 0).begin, keys_of_token(task, task.tokens - 1).end};
}

// Length of the run that starts at `position`, stays within `end` and `most`, and does not wrap.
inline int32_t run_length(const TileTask& task, int64_t position, int64_t end, int32_t most) {
  int64_t count = end - position;
  const int64_t until_wrap = task.slots - position % task.slots;
  if (until_wrap < count) count = until_wrap;
  return count < most ? static_cast<int32_t>(count) : most;
}

// Adds the relative bias of one head to the scores of consecutive tokens (step apart) against one key.
inline void add_bias(const TileTask& task, int32_t head, int64_t key_position, float* scores, int32_t step) {
  const float* table = task.bias + head * task.bias_width;
  const int64_t last = task.bias_width - 1;
  const int64_t first = task.first_position - key_position + task.bias_origin;
  if (first >= 0 && first + task.tokens - 1 <= last) {
    for (int32_t token = 0; token < task.tokens; ++token) scores[token * step] += table[first + token];
    return;
  }
  for (int32_t token = 0; token < task.tokens; ++token) {
    const int64_t entry = first + token;
    scores[token * step] += table[entry < 0 ? 0 : entry > last ? last : entry];
  }
}

// The state of an online softmax over blocks of keys, one entry per row.
struct Softmax {
  const float* maxima;
  const float* totals;
  const float* sums;  // [rows, Dv], unnormalised
};

inline void write_result(const TileTask& task, const Softmax& state) {
  const int32_t dim = task.value_dim, rows = task.rows();
  if (task.partial != nullptr) {
    __builtin_memcpy(task.partial, state.sums, sizeof(float) * rows * dim);
    __builtin_memcpy(task.partial + rows * dim, state.maxima, sizeof(float) * rows);
    __builtin_memcpy(task.partial + rows * (dim + 1), state.totals, sizeof(float) * rows);
    return;
  }
  for (int32_t row = 0; row < rows; ++row) {
    const int32_t head = row / task.tokens, token = row % task.tokens;
    float* out = task.out + head * task.out_head_stride + token * task.out_token_stride;
    const float sink = task.sinks == nullptr ? 0.0F : __builtin_expf(task.sinks[head] - state.maxima[row]);
    const float inverse = state.totals[row] > 0.0F ? 1.0F / (state.totals[row] + sink) : 0.0F;
    for (int32_t column = 0; column < dim; ++column) out[column] = state.sums[row * dim + column] * inverse;
  }
}

}  // namespace fixed_capacity::FIXED_CAPACITY_VARIANT
