// Many query rows (prefill, verification, encoders): the rows are the vector lanes.
//
// Queries are transposed once per tile; keys and values are then read where they lie, in blocks, each element
// used by every row of the tile. Maxima, exponentials and sums of the softmax are element-wise across lanes.
#pragma once

#include "tile_common.h"

namespace fixed_capacity::FIXED_CAPACITY_VARIANT {

inline constexpr int32_t kManyBlock = 48;  // keys per block: a multiple of every kUnroll
inline constexpr int32_t kConvertedFloats = 16'384;  // rounded keys or values at once; stay in the L2 cache
inline constexpr int32_t kQueryFloats = kTileFloats > kMaxHeadDim * kLanes ? kTileFloats : kMaxHeadDim * kLanes;

struct ManyTile {
  alignas(64) float queries[kQueryFloats];                  // [D, lanes], scaled
  alignas(64) float sums[kTileFloats];                      // [rows, Dv]
  alignas(64) float scores[kManyBlock * kMaxTileQueries];   // [keys, lanes], then weights
  alignas(64) float maxima[kMaxTileQueries], totals[kMaxTileQueries], factors[kMaxTileQueries];
  alignas(64) int32_t first_key[kMaxTileQueries], last_key[kMaxTileQueries];  // visible, relative to the block
  alignas(64) float converted[kConvertedFloats];            // keys, then values, of a rounded cache
  int32_t lanes;  // rows rounded up to whole vectors
};

// Keys of one block: what of rounded keys or values is converted at once must fit `converted`.
inline int32_t most_keys(const TileTask& task) {
  if (task.type == CacheType::float32) return kManyBlock;
  const int32_t fit = kConvertedFloats / (task.key_dim > task.value_dim ? task.key_dim : task.value_dim);
  return fit < kManyBlock ? fit : kManyBlock;
}

// Keys or values of `count` slots from `slot` on as floats: where they lie, or converted, as each is used many times.
inline const float* floats_of(const TileTask& task, const void* elements, int32_t dim, int64_t slot, int32_t count,
                              ManyTile& tile) {
  if (task.type == CacheType::float32) return static_cast<const float*>(elements) + slot * dim;
  if (task.type == CacheType::float16)
    to_floats(static_cast<const Half*>(elements) + slot * dim, tile.converted, int64_t{count} * dim);
  else
    to_floats(static_cast<const CacheByte*>(elements) + slot * (dim + kScaleBytes), tile.converted, count, dim);
  return tile.converted;
}

inline void load_queries(const TileTask& task, ManyTile& tile) {
  const int32_t rows = task.rows();
  tile.lanes = (rows + kLanes - 1) / kLanes * kLanes;
  for (int32_t row = 0; row < tile.lanes; ++row) {
    tile.maxima[row] = kLowest;
    tile.totals[row] = 0.0F;
    const bool is_padding = row >= rows;
    const float* query = task.query;
    if (!is_padding)
      query += (row / task.tokens) * task.query_head_stride + int64_t{row % task.tokens} * task.key_dim;
    for (int32_t d = 0; d < task.key_dim; ++d)
      tile.queries[d * tile.lanes + row] = is_padding ? 0.0F : query[d] * task.scale;
  }
  for (int32_t entry = 0; entry < rows * task.value_dim; ++entry) tile.sums[entry] = 0.0F;
}

// scores[key, lanes] = queries . key for Keys keys and Vectors vectors of lanes.
template <int Keys, int Vectors>
inline void score_keys(const float* keys, int32_t dim, const float* queries, int32_t lanes, float* scores) {
  Vec total[Keys][Vectors] = {};
  for (int32_t d = 0; d < dim; ++d) {
    Vec query[Vectors];
    for (int part = 0; part < Vectors; ++part) query[part] = load(queries + d * lanes + part * kLanes);
    for (int key = 0; key < Keys; ++key) {
      const Vec element = broadcast(keys[key * dim + d]);
      for (int part = 0; part < Vectors; ++part) total[key][part] += query[part] * element;
    }
  }
  for (int key = 0; key < Keys; ++key)
    for (int part = 0; part < Vectors; ++part) store(scores + key * lanes + part * kLanes, total[key][part]);
}

template <int Keys, int Vectors>
inline void score_block(const float* keys, int32_t count, int32_t dim, const float* queries, int32_t lanes,
                        float* scores) {
  for (; count >= Keys; count -= Keys, keys += Keys * dim, scores += Keys * lanes)
    score_keys<Keys, Vectors>(keys, dim, queries, lanes, scores);
  if constexpr (Keys > 1) score_block<Keys / 2, Vectors>(keys, count, dim, queries, lanes, scores);
}

inline void score_all(const TileTask& task, ManyTile& tile, const float* keys, int32_t count) {
  int32_t lane = 0;
  for (; lane + 2 * kLanes <= tile.lanes; lane += 2 * kLanes)
    score_block<kUnroll, 2>(keys, count, task.key_dim, tile.queries + lane, tile.lanes, tile.scores + lane);
  if (lane < tile.lanes)
    score_block<kUnroll, 1>(keys, count, task.key_dim, tile.queries + lane, tile.lanes, tile.scores + lane);
}

inline void adjust_scores(const TileTask& task, ManyTile& tile, int64_t position, int32_t count) {
  if (task.has_softcap) {
    const float inverse = 1.0F / task.softcap;
    for (int32_t entry = 0; entry < count * tile.lanes; entry += kLanes)
      store(tile.scores + entry, tanh_of(load(tile.scores + entry) * inverse) * task.softcap);
  }
  if (task.bias == nullptr) return;
  for (int32_t key = 0; key < count; ++key)
    for (int32_t head = 0; head < task.heads; ++head)
      add_bias(task, head, position + key, tile.scores + key * tile.lanes + head * task.tokens, 1);
}

// Sets the visible keys of each row within the block at `position`; returns whether any row misses some.
inline bool mark_visible(const TileTask& task, ManyTile& tile, int64_t position, int32_t count) {
  bool any_hidden = false;
  for (int32_t row = 0; row < tile.lanes; ++row) {
    const KeyRange range = keys_of_token(task, row % task.tokens);
    const int64_t first = range.begin - position, last = range.end - position;
    tile.first_key[row] = first < 0 ? 0 : first > count ? count : static_cast<int32_t>(first);
    tile.last_key[row] = last < 0 ? 0 : last > count ? count : static_cast<int32_t>(last);
    any_hidden = any_hidden || tile.first_key[row] > 0 || tile.last_key[row] < count;
  }
  return any_hidden;
}

// One step of the online softmax for one vector of rows: scores become weights, older sums get a factor.
template <bool Masked>
inline void soften(ManyTile& tile, int32_t lane, int32_t count) {
  float* scores = tile.scores + lane;
  const IntVec first = load(tile.first_key + lane), last = load(tile.last_key + lane);
  const Vec lowest = broadcast(kLowest), old_maximum = load(tile.maxima + lane);
  Vec maximum = old_maximum, total = {};
  for (int32_t key = 0; key < count; ++key) {
    Vec score = load(scores + key * tile.lanes);
    if constexpr (Masked) {
      const IntVec index = IntVec{} + key;
      score = choose((index >= first) & (index < last), score, lowest);
    }
    maximum = larger(maximum, score);
  }
  for (int32_t key = 0; key < count; ++key) {
    Vec weight = exp_of_nonpositive(load(scores + key * tile.lanes) - maximum);
    if constexpr (Masked) {
      const IntVec index = IntVec{} + key;
      weight = choose((index >= first) & (index < last), weight, Vec{});
    }
    store(scores + key * tile.lanes, weight);
    total += weight;
  }
  const Vec factor = exp_of_nonpositive(old_maximum - maximum);
  store(tile.maxima + lane, maximum);
  store(tile.factors + lane, factor);
  store(tile.totals + lane, load(tile.totals + lane) * factor + total);
}

// Weights of one block of keys for consecutive rows: the weight of (row, key) is data[key * lanes + row].
struct Weights {
  const float* data;
  int32_t lanes, keys;
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
      const Vec weight = broadcast(weights.data[key * weights.lanes + row]);
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
        total += weights.data[key * weights.lanes + row] * values[key * dim + column];
      sums[row * dim + column] = total;
    }
}

template <int Rows>
inline void weigh_from(const TileTask& task, ManyTile& tile, const float* values, int32_t count, int32_t row) {
  for (; row + Rows <= task.rows(); row += Rows)
    weigh_rows<Rows>({tile.scores + row, tile.lanes, count}, values, task.value_dim, tile.factors + row,
                     tile.sums + row * task.value_dim);
  if constexpr (Rows > 1) weigh_from<Rows / 2>(task, tile, values, count, row);
}

// Takes a task's keys and values in blocks, each used by all query rows.
inline void stream_many(const TileTask& task, ManyTile& tile) {
  const int32_t dim = task.key_dim, value_dim = task.value_dim, most = most_keys(task);
  const KeyRange range = keys_of_tile(task);
  for (int64_t position = range.begin; position < range.end;) {
    const int32_t count = run_length(task, position, range.end, most);
    const int64_t slot = position % task.slots;
    score_all(task, tile, floats_of(task, task.keys, dim, slot, count, tile), count);
    adjust_scores(task, tile, position, count);
    const bool masked = mark_visible(task, tile, position, count);
    for (int32_t lane = 0; lane < tile.lanes; lane += kLanes)
      masked ? soften<true>(tile, lane, count) : soften<false>(tile, lane, count);
    const float* values = floats_of(task, task.values, value_dim, slot, count, tile);
    weigh_from<kUnroll>(task, tile, values, count, 0);
    position += count;
  }
}

inline void attend_many(const TileTask& task) {
  ManyTile tile;
  load_queries(task, tile);
  stream_many(task, tile);
  if (task.beside_begin < task.beside_end) stream_many(task.beside(), tile);
  write_result(task, {tile.maxima, tile.totals, tile.sums});
}

}  // namespace fixed_capacity::FIXED_CAPACITY_VARIANT
