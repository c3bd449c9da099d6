// Products of quantized rows with integer weights: exact sums of byte products within a group, then one
// multiplication by the two scales.
#pragma once

#include "linear_float.h"

namespace fixed_capacity::FIXED_CAPACITY_VARIANT {

// One row of quantized inputs (weight_layout.h).
struct QuantizedRow {
  const int8_t* values;
  const float* scales;
  const int32_t* sums;

  QuantizedRow() = default;
  QuantizedRow(const void* rows, const WeightLayout& layout, int64_t row)
      : values(static_cast<const int8_t*>(rows) + row * layout.row_bytes()),
        scales(reinterpret_cast<const float*>(values + layout.groups() * layout.group)),
        sums(reinterpret_cast<const int32_t*>(scales + layout.groups())) {}
};

struct Int8 {
  static constexpr int kOffset = kSignedWeights ? 0 : 128;
  static constexpr bool kHasMinima = false;
  static constexpr int kInputs = 4;  // inputs per block of 128 bytes

  template <int Rows>
  static void add(IntVec (&sums)[Rows][kPanelVecs], const uint8_t* block, const QuantizedRow* rows, int64_t at) {
    FIXED_CAPACITY_UNROLL
    for (int v = 0; v < kPanelVecs; ++v) {
      const ByteVec weights = load_bytes(block + v * kLanes * 4);
      FIXED_CAPACITY_UNROLL
      for (int r = 0; r < Rows; ++r) sums[r][v] = dot4(sums[r][v], weights, broadcast_quad(rows[r].values + at));
    }
  }
};

struct Int4 {
  static constexpr int kOffset = 0;
  static constexpr bool kHasMinima = true;
  static constexpr int kInputs = 8;

  template <int Rows>
  static void add(IntVec (&sums)[Rows][kPanelVecs], const uint8_t* block, const QuantizedRow* rows, int64_t at) {
    FIXED_CAPACITY_UNROLL
    for (int v = 0; v < kPanelVecs; ++v) {
      const ByteVec pairs = load_bytes(block + v * kLanes * 4);
      const ByteVec low = pairs & 0x0F, high = (ByteVec)((IntVec)pairs >> 4) & 0x0F;
      FIXED_CAPACITY_UNROLL
      for (int r = 0; r < Rows; ++r) {
        sums[r][v] = dot4_small(sums[r][v], low, broadcast_quad(rows[r].values + at));
        sums[r][v] = dot4_small(sums[r][v], high, broadcast_quad(rows[r].values + at + 4));
      }
    }
  }
};

template <int Rows, typename Format>
inline void integer_tile(const LinearTask& task, int64_t row, int64_t panel) {
  const WeightLayout& layout = task.layout;
  const uint8_t* scales = task.weight + panel * layout.panel_bytes();
  const uint8_t* block = scales + layout.scale_bytes();
  QuantizedRow rows[Rows];
  FIXED_CAPACITY_UNROLL
  for (int r = 0; r < Rows; ++r) rows[r] = QuantizedRow(task.input, layout, row + r);
  Vec totals[Rows][kPanelVecs] = {};
  for (int64_t group = 0; group < layout.groups(); ++group, scales += kPanel * (Format::kHasMinima ? 4 : 2)) {
    IntVec sums[Rows][kPanelVecs];
    FIXED_CAPACITY_UNROLL
    for (int r = 0; r < Rows; ++r)
      FIXED_CAPACITY_UNROLL
      for (int v = 0; v < kPanelVecs; ++v) sums[r][v] = broadcast_int(-Format::kOffset * rows[r].sums[group]);
    const int64_t end = (group + 1) * layout.group;
    for (int64_t at = group * layout.group; at < end; at += Format::kInputs, block += kPanel * 4) {
      __builtin_prefetch(block + kAheadBytes);
      __builtin_prefetch(block + kAheadBytes + 64);
      Format::template add<Rows>(sums, block, rows, at);
    }
    FIXED_CAPACITY_UNROLL
    for (int v = 0; v < kPanelVecs; ++v) {
      const Vec scale = bfloat16_to_float(scales + v * kLanes * 2);
      FIXED_CAPACITY_UNROLL
      for (int r = 0; r < Rows; ++r)
        totals[r][v] += __builtin_convertvector(sums[r][v], Vec) * (scale * rows[r].scales[group]);
      if constexpr (Format::kHasMinima) {
        const Vec minimum = bfloat16_to_float(scales + (kPanel + v * kLanes) * 2);
        FIXED_CAPACITY_UNROLL
        for (int r = 0; r < Rows; ++r)
          totals[r][v] += minimum * (static_cast<float>(rows[r].sums[group]) * rows[r].scales[group]);
      }
    }
  }
  FIXED_CAPACITY_UNROLL
  for (int r = 0; r < Rows; ++r) write_row(task, row + r, panel * kPanel, totals[r]);
}

}  // namespace fixed_capacity::FIXED_CAPACITY_VARIANT
