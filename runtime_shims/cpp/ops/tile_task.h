// The unit of work of the kernels: some query rows against a range of keys of one key/value head.
// Plain data, shared by every instruction-set variant.
#pragma once

#include <cstdint>

#include "cache_view.h"

namespace fixed_capacity {

inline constexpr int32_t kMaxHeadDim = 1024;    // largest key or value size
inline constexpr int32_t kTileFloats = 8192;    // floats of stack per tile for queries, and for outputs
inline constexpr int32_t kMaxTileQueries = 64;  // query rows per tile
inline constexpr int32_t kFewQueries = 4;       // up to here keys are streamed past query rows in registers

// Query rows are (head, token) pairs, head major: row = head * tokens + token.
struct TileTask {
  CacheType type = CacheType::float32;  // of keys and values
  const void* keys = nullptr;           // [S, D] of one kv head
  const void* values = nullptr;         // [S, Dv]
  int64_t slots = 0;
  int32_t key_dim = 0, value_dim = 0;

  const float* query = nullptr;  // first head, first token; rows of a head are D apart
  int64_t query_head_stride = 0;
  int32_t heads = 0, tokens = 0;

  int64_t first_position = 0;  // of token 0
  int64_t begin = 0, end = 0;  // key positions this task may read
  int64_t window = 0;
  bool causal = false;

  // Keys and values beside those above, under one softmax with them: every query sees beside_begin..beside_end-1.
  const void* beside_keys = nullptr;
  const void* beside_values = nullptr;
  int64_t beside_begin = 0, beside_end = 0;

  float scale = 1.0F;
  bool has_softcap = false;
  float softcap = 0.0F;
  const float* bias = nullptr;  // [heads, N] rows of the task's heads, or null
  int64_t bias_width = 0, bias_origin = 0;
  const float* sinks = nullptr;  // [heads], or null

  float* out = nullptr;  // first token, first head
  int64_t out_head_stride = 0, out_token_stride = 0;
  float* partial = nullptr;  // when set: unnormalised result [rows, Dv] then maxima [rows], sums [rows]

  int32_t rows() const { return heads * tokens; }

  // The same queries over the keys and values beside, which lie in order and have no bias.
  TileTask beside() const {
    TileTask task = *this;
    task.keys = beside_keys;
    task.values = beside_values;
    task.slots = task.end = beside_end;
    task.begin = beside_begin;
    task.causal = false;
    task.bias = nullptr;
    return task;
  }
};

// Query rows one tile may hold for head sizes of 1..kMaxHeadDim: a multiple of the widest vector where
// that fits the stack, else 8.
constexpr int32_t tile_capacity(int64_t key_dim, int64_t value_dim) {
  const int64_t widest = key_dim > value_dim ? key_dim : value_dim;
  const int64_t fit = kTileFloats / widest;
  if (fit >= kMaxTileQueries) return kMaxTileQueries;
  return fit >= 16 ? static_cast<int32_t>(fit / 16 * 16) : 8;
}

constexpr int64_t partial_floats(int64_t rows, int64_t value_dim) { return rows * (value_dim + 2); }

}  // namespace fixed_capacity
