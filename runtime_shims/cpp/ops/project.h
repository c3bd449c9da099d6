// The output projection over weights in their natural layout [V, C]. Bound by memory: every weight is read once per
// call, whatever the number of rows, and dotted with a few rows held in registers.
#pragma once

#include "project_task.h"
#include "simd.h"

namespace fixed_capacity::FIXED_CAPACITY_VARIANT {

inline constexpr int kProjectWeights = 4;                           // vocabulary entries at a time
inline constexpr int kProjectRows = kUnroll / kProjectWeights + 1;  // hidden rows at a time: 4, or 2 with few registers
inline constexpr int64_t kProjectPrefetch = 2048;                   // floats ahead

// out[row][entry] for Rows rows and Weights entries. One entry is one stream that the processor prefetches by itself;
// several are a block of memory fetched ahead from its start to its end, since each of them alone is too short.
template <int Rows, int Weights>
inline void project_tile(const ProjectTask& task, int64_t row, int64_t entry) {
  const int64_t width = task.width;
  const float* weight = task.weight + entry * width;
  const float* hidden = task.hidden + row * width;
  Vec total[Weights][Rows] = {};
  int64_t c = 0;
  for (; c + kLanes <= width; c += kLanes) {
    Vec value[Weights];
    for (int index = 0; index < Weights; ++index) {
      if constexpr (Weights > 1) __builtin_prefetch(weight + Weights * c + index * kLanes + kProjectPrefetch);
      value[index] = load(weight + index * width + c);
    }
    for (int r = 0; r < Rows; ++r) {
      const Vec state = load(hidden + r * width + c);
      for (int index = 0; index < Weights; ++index) total[index][r] += state * value[index];
    }
  }
  for (int r = 0; r < Rows; ++r)
    for (int index = 0; index < Weights; ++index) {
      float dot = sum_lanes(total[index][r]);
      for (int64_t rest = c; rest < width; ++rest) dot += hidden[r * width + rest] * weight[index * width + rest];
      task.out[(row + r) * task.vocabulary + entry + index] = dot;
    }
}

template <int Weights>
inline void project_entries(const ProjectTask& task, int64_t entry) {
  int64_t row = 0;
  for (; row + kProjectRows <= task.rows; row += kProjectRows) project_tile<kProjectRows, Weights>(task, row, entry);
  for (; row < task.rows; ++row) project_tile<1, Weights>(task, row, entry);
}

inline void project(const ProjectTask& task) {
  int64_t entry = task.begin;
  if (task.rows > 1)
    for (; entry + kProjectWeights <= task.end; entry += kProjectWeights)
      project_entries<kProjectWeights>(task, entry);
  for (; entry < task.end; ++entry) project_entries<1>(task, entry);
}

}  // namespace fixed_capacity::FIXED_CAPACITY_VARIANT
