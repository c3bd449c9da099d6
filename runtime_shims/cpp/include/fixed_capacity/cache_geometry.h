// The cache law in integers; the C++ twin of runtime_shims/contract/cache_geometry.py, which explains it.
//
// Geometries are plain values and check nothing: SequenceCursor::make refuses those that cannot be.
#pragma once

#include <cstdint>

namespace fixed_capacity {

enum class CacheKind { full, sliding, cross };

// Slots of one self-attention layer. A full layer is the ring that never wraps: its reach is the context.
struct CacheGeometry {
  CacheKind kind = CacheKind::full;  // full or sliding
  int64_t reach = 1;                 // positions a query may look back on, itself included
  int64_t max_step = 1;              // most tokens one call writes per row

  constexpr int64_t slots() const { return reach + max_step - 1; }
  bool operator==(const CacheGeometry&) const = default;
};

// Slots of one cross-attention layer: not a ring, written once per request by `encode`. `max_enc` counts encoder
// output positions.
struct CrossGeometry {
  int64_t max_enc = 1;

  constexpr int64_t slots() const { return max_enc; }
  bool operator==(const CrossGeometry&) const = default;
};

// Slot in which the key and value of `position` (>= 0) are written.
constexpr int64_t slot_of(int64_t position, int64_t slots) { return position % slots; }

// Position that `slot` stands for once `end` positions are held; negative: never written.
constexpr int64_t position_of(int64_t slot, int64_t end, int64_t slots) {
  const int64_t newest = end - 1;
  const int64_t distance = (newest - slot) % slots;  // truncates; brought into 0..slots-1 below
  return newest - (distance < 0 ? distance + slots : distance);
}

// Whether the query at position `query` attends to `slot` once `end` positions are held.
constexpr bool is_visible(const CacheGeometry& geometry, int64_t query, int64_t slot, int64_t end) {
  const int64_t position = position_of(slot, end, geometry.slots());
  return 0 <= position && position <= query && query - position < geometry.reach;
}

// Whether a query of a row with `encoder_length` encoder positions attends to `slot`.
constexpr bool is_visible(const CrossGeometry&, int64_t slot, int64_t encoder_length) {
  return 0 <= slot && slot < encoder_length;
}

// Shortest length a row may return to after `high_water` positions have been written.
constexpr int64_t rollback_floor(const CacheGeometry& geometry, int64_t high_water) {
  return high_water <= geometry.slots() ? 0 : high_water - geometry.max_step;
}

// Oldest position a ring of `slots` slots still holds once `end` positions were written.
constexpr int64_t oldest_held(int64_t end, int64_t slots) { return end > slots ? end - slots : 0; }

}  // namespace fixed_capacity
