// The entry of the products: tiles of as many rows as the registers hold, over chunks of rows that stay in the cache.
#pragma once

#include "linear_rows.h"

namespace fixed_capacity::FIXED_CAPACITY_VARIANT {

#if defined(__AVX512F__)
inline constexpr int kFloatRows = 12, kIntegerRows = 6;
#elif defined(__aarch64__)
inline constexpr int kFloatRows = 3, kIntegerRows = 2;
#elif defined(__AVX__)
inline constexpr int kFloatRows = 3, kIntegerRows = 2;
#else
inline constexpr int kFloatRows = 1, kIntegerRows = 1;
#endif

inline constexpr int64_t kChunkBytes = 192 * 1024;  // inputs that are multiplied with one panel after the other

template <typename Format>
struct FloatTiles {
  static constexpr int kRows = kFloatRows;
  template <int Rows>
  static void run(const LinearTask& task, int64_t row, int64_t panel) { float_tile<Rows, Format>(task, row, panel); }
};

template <typename Format>
struct IntegerTiles {
  static constexpr int kRows = kIntegerRows;
  template <int Rows>
  static void run(const LinearTask& task, int64_t row, int64_t panel) { integer_tile<Rows, Format>(task, row, panel); }
};

// The tile of exactly `rows` rows, 1..Rows.
template <typename Tiles, int Rows>
inline void run_tile_of(int64_t rows, const LinearTask& task, int64_t row, int64_t panel) {
  if constexpr (Rows > 1) {
    if (rows < Rows) return run_tile_of<Tiles, Rows - 1>(rows, task, row, panel);
  }
  Tiles::template run<Rows>(task, row, panel);
}

template <typename Tiles>
inline void run_tiles(const LinearTask& task) {
  const int64_t row_bytes = task.layout.is_integer() ? task.layout.row_bytes() : task.layout.width * 4;
  int64_t chunk = kChunkBytes / row_bytes / Tiles::kRows * Tiles::kRows;
  if (chunk < Tiles::kRows) chunk = Tiles::kRows;
  for (int64_t start = task.first_row; start < task.last_row; start += chunk) {
    const int64_t end = start + chunk < task.last_row ? start + chunk : task.last_row;
    for (int64_t panel = task.first_panel; panel < task.last_panel; ++panel)
      for (int64_t row = start; row < end; row += Tiles::kRows)
        run_tile_of<Tiles, Tiles::kRows>(end - row, task, row, panel);
  }
}

inline void linear(const LinearTask& task) {
  switch (task.layout.bits) {
    case 32: return run_tiles<FloatTiles<Float32>>(task);
    case 16: return run_tiles<FloatTiles<Float16>>(task);
    case 8: return run_tiles<IntegerTiles<Int8>>(task);
    default: return run_tiles<IntegerTiles<Int4>>(task);
  }
}

}  // namespace fixed_capacity::FIXED_CAPACITY_VARIANT
