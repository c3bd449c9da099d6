// What both tile shapes share: visible ranges, contiguous runs of the ring, weighted sums of values, the result.
#pragma once

#include "simd.h"
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

// Weights of one block of keys: the weight of (row, key) is data[row * row_step + key * key_step].
struct Weights {
  const float* data;
  int32_t row_step, key_step, keys;
};

// sums[row] = sums[row] * factors[row] + weights[row] . values, for Vectors vectors of value columns.
template <int Rows, int Vectors>
inline void weigh_columns(const Weights& weights, const float* values, int32_t dim, const float* factors,
                          float* sums) {
  Vec total[Rows][Vectors];
  for (int row = 0; row < Rows; ++row)
    for (int part = 0; part < Vectors; ++part)
      total[row][part] = load(sums + row * dim + part * kLanes) * factors[row];
  for (int32_t key = 0; key < weights.keys; ++key) {
    Vec value[Vectors];
    for (int part = 0; part < Vectors; ++part) value[part] = load(values + key * dim + part * kLanes);
    for (int row = 0; row < Rows; ++row) {
      const Vec weight = broadcast(weights.data[row * weights.row_step + key * weights.key_step]);
      for (int part = 0; part < Vectors; ++part) total[row][part] += weight * value[part];
    }
  }
  for (int row = 0; row < Rows; ++row)
    for (int part = 0; part < Vectors; ++part) store(sums + row * dim + part * kLanes, total[row][part]);
}

// The same for every value column of Rows rows.
template <int Rows>
inline void weigh_rows(const Weights& weights, const float* values, int32_t dim, const float* factors, float* sums) {
  int32_t column = 0;
  for (; column + 2 * kLanes <= dim; column += 2 * kLanes)
    weigh_columns<Rows, 2>(weights, values + column, dim, factors, sums + column);
  for (; column + kLanes <= dim; column += kLanes)
    weigh_columns<Rows, 1>(weights, values + column, dim, factors, sums + column);
  for (; column < dim; ++column)
    for (int row = 0; row < Rows; ++row) {
      float total = sums[row * dim + column] * factors[row];
      for (int32_t key = 0; key < weights.keys; ++key)
        total += weights.data[row * weights.row_step + key * weights.key_step] * values[key * dim + column];
      sums[row * dim + column] = total;
    }
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
    const float inverse = state.totals[row] > 0.0F ? 1.0F / state.totals[row] : 0.0F;
    for (int32_t column = 0; column < dim; ++column) out[column] = state.sums[row * dim + column] * inverse;
  }
}

}  // namespace fixed_capacity::FIXED_CAPACITY_VARIANT
