// Products with floating-point weights. A tile is a few rows by one panel, all of it in registers; the panel is read
// as one stream, once for one tile of rows.
#pragma once

#include "dot_bytes.h"
#include "linear_task.h"

namespace fixed_capacity::FIXED_CAPACITY_VARIANT {

inline constexpr int kPanelVecs = static_cast<int>(kPanel) / kLanes;
inline constexpr int64_t kAheadBytes = 4096;  // prefetch distance in the weight stream

// Adds the bias and writes the live features of one row of a tile.
inline void write_row(const LinearTask& task, int64_t row, int64_t feature, const Vec* totals) {
  float* out = task.out + row * task.layout.features + feature;
  const int64_t live = task.layout.features - feature;
  if (live >= kPanel) {
    for (int v = 0; v < kPanelVecs; ++v)
      store(out + v * kLanes, task.bias ? totals[v] + load(task.bias + feature + v * kLanes) : totals[v]);
    return;
  }
  float values[kPanel];
  __builtin_memcpy(values, totals, sizeof(values));
  for (int64_t index = 0; index < live; ++index)
    out[index] = task.bias ? values[index] + task.bias[feature + index] : values[index];
}

struct Float32 {
  static constexpr int64_t kBytes = 4;
  static Vec read(const uint8_t* from) { return load(reinterpret_cast<const float*>(from)); }
};

struct Float16 {
  static constexpr int64_t kBytes = 2;
  static Vec read(const uint8_t* from) { return load(reinterpret_cast<const Half*>(from)); }
};

template <int Rows, typename Format>
inline void float_tile(const LinearTask& task, int64_t row, int64_t panel) {
  const int64_t width = task.layout.width;
  const uint8_t* weight = task.weight + panel * task.layout.panel_bytes();
  const float* input = static_cast<const float*>(task.input) + row * width;
  Vec totals[Rows][kPanelVecs] = {};
  for (int64_t c = 0; c < width; ++c, weight += kPanel * Format::kBytes) {
    Vec values[kPanelVecs];
    FIXED_CAPACITY_UNROLL
    for (int v = 0; v < kPanelVecs; ++v) values[v] = Format::read(weight + v * kLanes * Format::kBytes);
    FIXED_CAPACITY_UNROLL
    for (int64_t line = 0; line < kPanel * Format::kBytes; line += 64) __builtin_prefetch(weight + line + kAheadBytes);
    FIXED_CAPACITY_UNROLL
    for (int r = 0; r < Rows; ++r) {
      const Vec state = broadcast(input[r * width + c]);
      FIXED_CAPACITY_UNROLL
      for (int v = 0; v < kPanelVecs; ++v) totals[r][v] += state * values[v];
    }
  }
  FIXED_CAPACITY_UNROLL
  for (int r = 0; r < Rows; ++r) write_row(task, row + r, panel * kPanel, totals[r]);
}

}  // namespace fixed_capacity::FIXED_CAPACITY_VARIANT
