// One attention call, whichever operator it came from: pointers, sizes and the extent of each row.
//
// Shape legend: B cache rows, b live rows, T step tokens, S slots, E encoder positions, H query heads,
// K key/value heads, D key size, Dv value size, N entries of a bias table.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "cache_view.h"
#include "fixed_capacity/cache_geometry.h"

namespace fixed_capacity {

inline constexpr int64_t kNoWindow = std::numeric_limits<int64_t>::max();

enum class AttentionKind { cached, cross, encoder };

// What an encoder left, seen by every query under one softmax with its own keys. As many heads, sizes and type.
struct EncoderKeys {
  const void* keys = nullptr;    // [>=b, K, E, D]
  const void* values = nullptr;  // [>=b, K, E, Dv]
  int64_t slots = 0;               // E
  const int64_t* lengths = nullptr;  // [b]
};

// Queries and keys of one batch row. Positions are absolute; key position p is held at slot p mod S.
struct RowExtent {
  int64_t live_tokens = 0;     // the row's first tokens that are real; the others yield 0
  int64_t first_position = 0;  // position of its first query
  int64_t oldest = 0;          // keys of positions oldest..end-1 are held
  int64_t end = 0;
};

struct RelativeBias {
  const float* table = nullptr;  // [H, N]
  int64_t width = 0;             // N
  int64_t origin = 0;            // entry of distance 0
};

struct AttentionProblem {
  AttentionKind kind = AttentionKind::cached;
  int64_t batch = 0, query_heads = 0, kv_heads = 0, tokens = 0;
  int64_t slots = 0, key_dim = 0, value_dim = 0;
  const float* query = nullptr;   // [b, H, T, D]
  CacheType type = CacheType::float32;  // of keys and values
  const void* keys = nullptr;           // [>=b, K, S, D]
  const void* values = nullptr;         // [>=b, K, S, Dv]
  float* out = nullptr;           // [b, T, H, Dv]
  const int64_t* positions = nullptr;  // [b], cached only
  const int64_t* lengths = nullptr;    // [b], step lengths (cached) or encoder lengths
  int64_t window = kNoWindow;
  float scale = 1.0F;
  std::optional<float> softcap;
  std::optional<RelativeBias> bias;
  std::optional<EncoderKeys> beside;  // cached only
  const float* sinks = nullptr;  // [H], a score of each head that takes weight and has no value; or null

  int64_t groups() const { return query_heads / kv_heads; }
  bool is_causal() const { return kind == AttentionKind::cached; }
  int64_t beside_length(int64_t row) const { return beside ? beside->lengths[row] : 0; }

  RowExtent row(int64_t index) const {
    const int64_t length = lengths[index];
    switch (kind) {
      case AttentionKind::cached: {
        const int64_t end = positions[index] + length;
        return {length, positions[index], oldest_held(end, slots), end};
      }
      case AttentionKind::cross:
        return {length > 0 ? tokens : 0, 0, 0, length};
      case AttentionKind::encoder:
        break;
    }
    return {length, 0, 0, length};
  }
};

}  // namespace fixed_capacity
