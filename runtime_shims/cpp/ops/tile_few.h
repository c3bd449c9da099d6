// Few query rows (decoding): keys and values stream past query rows held in registers; vectors run along the head
// dimension for scores and value sums, and along keys for the softmax. Bound by memory, not by arithmetic.
#pragma once

#include "tile_common.h"

namespace fixed_capacity::FIXED_CAPACITY_VARIANT {

inline constexpr int32_t kFewBlock = 64;  // keys per block

inline constexpr int32_t kPrefetchBytes = 4096;  // how far ahead keys and values are asked for

struct FewTile {
  alignas(64) float scores[kFewQueries][kFewBlock];  // then weights
  alignas(64) float sums[kFewQueries * kMaxHeadDim];
  float maxima[kFewQueries], totals[kFewQueries], factors[kFewQueries];
  const float* queries[kFewQueries];
};

// Elements from one position to the next: in 8 bits a position ends with its scale.
template <typename Element>
constexpr int32_t stride_of(int32_t dim) {
  return static_cast<int32_t>(position_bytes(cache_type(static_cast<const Element*>(nullptr)), dim) / sizeof(Element));
}

// scores[row][key] = scale * query[row] . key for Keys keys.
template <int Rows, int Keys, typename Element>
inline void score_keys(const TileTask& task, const FewTile& tile, const Element* keys, float* scores) {
  const int32_t dim = task.key_dim, stride = stride_of<Element>(dim);
  Vec total[Keys][Rows] = {};
  int32_t d = 0;
  for (; d + kLanes <= dim; d += kLanes) {
    Vec key[Keys];
    for (int index = 0; index < Keys; ++index) {
      __builtin_prefetch(keys + index * stride + d + kPrefetchBytes / sizeof(Element));
      key[index] = load(keys + index * stride + d);
    }
    for (int row = 0; row < Rows; ++row) {
      const Vec query = load(tile.queries[row] + d);
      for (int index = 0; index < Keys; ++index) total[index][row] += query * key[index];
    }
  }
  for (int row = 0; row < Rows; ++row)
    for (int index = 0; index < Keys; ++index) {
      float dot = sum_lanes(total[index][row]);
      for (int32_t rest = d; rest < dim; ++rest)
        dot += tile.queries[row][rest] * to_float(keys[index * stride + rest]);
      scores[row * kFewBlock + index] = dot * task.scale * scale_after(keys + index * stride, dim);
    }
}

template <int Rows, typename Element>
inline void score_all(const TileTask& task, FewTile& tile, const Element* keys, int32_t count) {
  constexpr int kKeys = Rows == 1 ? 8 : Rows == 2 ? 4 : 2;
  const int32_t stride = stride_of<Element>(task.key_dim);
  int32_t key = 0;
  for (; key + kKeys <= count; key += kKeys)
    score_keys<Rows, kKeys>(task, tile, keys + key * stride, &tile.scores[0][key]);
  for (; key < count; ++key) score_keys<Rows, 1>(task, tile, keys + key * stride, &tile.scores[0][key]);
}

inline void adjust_scores(const TileTask& task, FewTile& tile, int64_t position, int32_t count) {
  if (task.has_softcap) {
    const float inverse = 1.0F / task.softcap;
    for (int32_t row = 0; row < task.rows(); ++row)
      for (int32_t key = 0; key < count; key += kLanes)
        store(&tile.scores[row][key], tanh_of(load(&tile.scores[row][key]) * inverse) * task.softcap);
  }
  if (task.bias == nullptr) return;
  for (int32_t head = 0; head < task.heads; ++head)
    for (int32_t key = 0; key < count; ++key)
      add_bias(task, head, position + key, &tile.scores[head * task.tokens][key], kFewBlock);
}

// One step of the online softmax for one row, whose visible keys are first..last-1 of the block.
inline void soften(FewTile& tile, int32_t row, int32_t first, int32_t last) {
  float* scores = tile.scores[row];
  IntVec lane_index;
  for (int lane = 0; lane < kLanes; ++lane) lane_index[lane] = lane;
  Vec highest = broadcast(kLowest), total = {};
  for (int32_t key = 0; key < last; key += kLanes) {
    const IntVec index = lane_index + key;
    highest = larger(highest, choose((index >= first) & (index < last), load(scores + key), broadcast(kLowest)));
  }
  const float old_maximum = tile.maxima[row], in_block = largest_lane(highest);
  const float maximum = in_block > old_maximum ? in_block : old_maximum;
  for (int32_t key = 0; key < kFewBlock; key += kLanes) {
    const IntVec index = lane_index + key;
    const Vec weight = exp_of_nonpositive(load(scores + key) - maximum);
    const Vec visible = choose((index >= first) & (index < last), weight, Vec{});
    store(scores + key, visible);
    total += visible;
  }
  const Vec factor = exp_of_nonpositive(broadcast(old_maximum - maximum));
  tile.maxima[row] = maximum;
  tile.factors[row] = factor[0];
  tile.totals[row] = tile.totals[row] * factor[0] + sum_lanes(total);
}

inline void soften_all(const TileTask& task, FewTile& tile, int64_t position, int32_t count) {
  for (int32_t row = 0; row < task.rows(); ++row) {
    const KeyRange range = keys_of_token(task, row % task.tokens);
    const int64_t first = range.begin - position, last = range.end - position;
    soften(tile, row, first < 0 ? 0 : first > count ? count : static_cast<int32_t>(first),
           last < 0 ? 0 : last > count ? count : static_cast<int32_t>(last));
  }
}

// sums[row] += weights[row] . values of Keys keys; value rows are read once, from end to end.
template <int Rows, int Keys, typename Element>
inline void weigh_keys(FewTile& tile, int32_t first, const Element* values, int32_t dim) {
  const int32_t stride = stride_of<Element>(dim);
  float weight[Keys][Rows];
  for (int key = 0; key < Keys; ++key)
    for (int row = 0; row < Rows; ++row)
      weight[key][row] = tile.scores[row][first + key] * scale_after(values + key * stride, dim);
  int32_t column = 0;
  for (; column + kLanes <= dim; column += kLanes) {
    Vec value[Keys];
    for (int key = 0; key < Keys; ++key) {
      __builtin_prefetch(values + key * stride + column + kPrefetchBytes / sizeof(Element));
      value[key] = load(values + key * stride + column);
    }
    for (int row = 0; row < Rows; ++row) {
      Vec total = load(tile.sums + row * dim + column);
      for (int key = 0; key < Keys; ++key) total += weight[key][row] * value[key];
      store(tile.sums + row * dim + column, total);
    }
  }
  for (; column < dim; ++column)
    for (int row = 0; row < Rows; ++row)
      for (int key = 0; key < Keys; ++key)
        tile.sums[row * dim + column] += weight[key][row] * to_float(values[key * stride + column]);
}

template <int Rows, typename Element>
inline void weigh_all(FewTile& tile, const Element* values, int32_t count, int32_t dim) {
  constexpr int kKeys = Rows == 1 ? 8 : Rows == 2 ? 4 : 2;
  const int32_t stride = stride_of<Element>(dim);
  for (int row = 0; row < Rows; ++row)
    for (int32_t column = 0; column < dim; ++column) tile.sums[row * dim + column] *= tile.factors[row];
  int32_t key = 0;
  for (; key + kKeys <= count; key += kKeys) weigh_keys<Rows, kKeys>(tile, key, values + key * stride, dim);
  for (; key < count; ++key) weigh_keys<Rows, 1>(tile, key, values + key * stride, dim);
}

// Streams a task's keys and values past its query rows.
template <int Rows, typename Element>
inline void stream_few(const TileTask& task, FewTile& tile) {
  const Element* keys = static_cast<const Element*>(task.keys);
  const Element* values = static_cast<const Element*>(task.values);
  const KeyRange range = keys_of_tile(task);
  for (int64_t position = range.begin; position < range.end;) {
    const int32_t count = run_length(task, position, range.end, kFewBlock);
    const int64_t slot = position % task.slots;
    score_all<Rows>(task, tile, keys + slot * stride_of<Element>(task.key_dim), count);
    adjust_scores(task, tile, position, count);
    soften_all(task, tile, position, count);
    weigh_all<Rows>(tile, values + slot * stride_of<Element>(task.value_dim), count, task.value_dim);
    position += count;
  }
}

template <int Rows, typename Element>
inline void attend_few(const TileTask& task) {
  FewTile tile;
  for (int row = 0; row < Rows; ++row) {
    tile.queries[row] = task.query + (row / task.tokens) * task.query_head_stride +
                        int64_t{row % task.tokens} * task.key_dim;
    tile.maxima[row] = kLowest;
    tile.totals[row] = 0.0F;
    for (int32_t key = 0; key < kFewBlock; ++key) tile.scores[row][key] = 0.0F;
  }
  for (int32_t entry = 0; entry < Rows * task.value_dim; ++entry) tile.sums[entry] = 0.0F;
  stream_few<Rows, Element>(task, tile);
  if (task.beside_begin < task.beside_end) stream_few<Rows, Element>(task.beside(), tile);
  write_result(task, {tile.maxima, tile.totals, tile.sums});
}

}  // namespace fixed_capacity::FIXED_CAPACITY_VARIANT
