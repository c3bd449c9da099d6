// Splits one attention call into independent tiles and runs them through any parallel loop.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>

#include "attention_problem.h"
#include "kernel_variants.h"

namespace fixed_capacity {

// Below this many multiply-adds a call runs on the calling thread: waking workers would cost more.
inline constexpr int64_t kParallelWork = 100'000;
// Keys of one tile are split between threads only in pieces at least this long.
inline constexpr int64_t kLeastSplitKeys = 64;
inline constexpr int64_t kMaxSplits = 16;
inline constexpr int64_t kTasksPerThread = 4;  // from here on, uneven shares no longer matter
inline constexpr int64_t kScratchFloats = 32'768;  // on the caller's stack

// How one call is cut: per batch row and kv head, tiles of heads x tokens, each over `splits` ranges of keys.
struct TilePlan {
  int64_t heads_per_tile = 1, tokens_per_tile = 1;
  int64_t head_tiles = 1, token_tiles = 1;
  int64_t splits = 1;
  bool parallel = false;

  int64_t tiles_per_head() const { return head_tiles * token_tiles; }
};

inline int64_t multiply_adds(const AttentionProblem& problem) {
  int64_t pairs = 0;
  for (int64_t row = 0; row < problem.batch; ++row) {
    const RowExtent extent = problem.row(row);
    const int64_t keys = std::min(extent.end - extent.oldest, std::max(problem.window, extent.live_tokens));
    pairs += extent.live_tokens * (keys + problem.beside_length(row));
  }
  return pairs * problem.query_heads * (problem.key_dim + problem.value_dim);
}

inline int64_t longest_row(const AttentionProblem& problem) {
  int64_t longest = 0;
  for (int64_t row = 0; row < problem.batch; ++row) {
    const RowExtent extent = problem.row(row);
    const int64_t keys = std::min(extent.end - extent.oldest, problem.window);
    longest = std::max(longest, keys + problem.beside_length(row));
  }
  return longest;
}

// Ranges of keys per tile, so that all threads have equal shares although tiles are few: 3 tiles on 2 threads become 6
// halves. Limited by the scratch they need and by the keys there are.
inline int64_t splits_for(const AttentionProblem& problem, const TilePlan& plan, int64_t threads) {
  const int64_t tiles = problem.batch * problem.kv_heads * plan.tiles_per_head();
  const int64_t rows = plan.heads_per_tile * plan.tokens_per_tile;
  const int64_t fit = kScratchFloats / (tiles * partial_floats(rows, problem.value_dim));
  const int64_t most = std::min({fit, longest_row(problem) / kLeastSplitKeys, kMaxSplits});
  int64_t splits = 1;
  while (splits < most && tiles * splits % threads != 0 && tiles * splits < kTasksPerThread * threads) ++splits;
  return splits;
}

inline TilePlan plan_tiles(const AttentionProblem& problem, int64_t threads) {
  TilePlan plan;
  const int64_t capacity = tile_capacity(problem.key_dim, problem.value_dim);
  plan.heads_per_tile = std::min(problem.groups(), capacity);
  plan.tokens_per_tile = std::clamp<int64_t>(capacity / plan.heads_per_tile, 1, problem.tokens);
  plan.head_tiles = (problem.groups() + plan.heads_per_tile - 1) / plan.heads_per_tile;
  plan.token_tiles = (problem.tokens + plan.tokens_per_tile - 1) / plan.tokens_per_tile;
  plan.parallel = threads > 1 && multiply_adds(problem) >= kParallelWork;
  if (plan.parallel) plan.splits = splits_for(problem, plan, threads);
  return plan;
}

// Runs tiles of one problem; `run(index)` for every index below `tasks()`, in any order and concurrently, then
// `merge(index)` for every index below `tiles()` when keys were split.
class TileRunner {
 public:
  TileRunner(const AttentionProblem& problem, const TilePlan& plan, const KernelVariant& variant, float* scratch)
      : problem_(problem), plan_(plan), variant_(variant), scratch_(scratch) {}

  int64_t tiles() const { return problem_.batch * problem_.kv_heads * plan_.tiles_per_head(); }
  int64_t tasks() const { return tiles() * plan_.splits; }

  void run(int64_t index) const {
    const int64_t tile = index / plan_.splits, split = index % plan_.splits;
    TileTask task;
    const bool has_queries = describe(tile, task);
    if (split == 0) clear_padding(tile, task.tokens);
    if (!has_queries) return;
    take_share(split, task.begin, task.end);
    take_share(split, task.beside_begin, task.beside_end);
    if (plan_.splits > 1) task.partial = partial(index);
    variant_.attend_tile(task);
  }

  void merge(int64_t tile) const {
    TileTask task;
    if (!describe(tile, task)) return;
    for (int32_t row = 0; row < task.rows(); ++row) merge_row(tile, task, row);
  }

 private:
  struct Place {
    int64_t batch_row, kv_head, first_head, heads, first_token, tokens;
  };

  // Consecutive tiles alternate between early and late tokens, so that equal shares of tiles are equal work
  // although causal tiles grow with their position.
  Place place(int64_t tile) const {
    const int64_t in_head = tile % plan_.tiles_per_head(), head_index = tile / plan_.tiles_per_head();
    const int64_t step = in_head % plan_.token_tiles;
    const int64_t token_tile = step % 2 == 0 ? step / 2 : plan_.token_tiles - 1 - step / 2;
    Place at;
    at.batch_row = head_index / problem_.kv_heads;
    at.kv_head = head_index % problem_.kv_heads;
    const int64_t group = in_head / plan_.token_tiles * plan_.heads_per_tile;
    at.first_head = at.kv_head * problem_.groups() + group;
    at.heads = std::min(plan_.heads_per_tile, problem_.groups() - group);
    at.first_token = token_tile * plan_.tokens_per_tile;
    at.tokens = std::min(plan_.tokens_per_tile, problem_.tokens - at.first_token);
    return at;
  }

  void take_share(int64_t split, int64_t& begin, int64_t& end) const {
    const int64_t first = begin, keys = end - begin;
    begin = first + keys * split / plan_.splits;
    end = first + keys * (split + 1) / plan_.splits;
  }

  const void* position_at(const void* first, int64_t index, int64_t dim) const {
    return static_cast<const char*>(first) + index * position_bytes(problem_.type, dim);
  }

  float* out_of(const Place& at) const {
    return problem_.out + ((at.batch_row * problem_.tokens + at.first_token) * problem_.query_heads +
                           at.first_head) * problem_.value_dim;
  }

  // Fills `task` for the live queries of a tile; false when it has none. `task.tokens` is set either way.
  bool describe(int64_t tile, TileTask& task) const {
    const Place at = place(tile);
    const RowExtent extent = problem_.row(at.batch_row);
    const int64_t live = std::clamp<int64_t>(extent.live_tokens - at.first_token, 0, at.tokens);
    task.tokens = static_cast<int32_t>(live);
    if (live == 0) return false;
    const int64_t kv_row = (at.batch_row * problem_.kv_heads + at.kv_head) * problem_.slots;
    task.type = problem_.type;
    task.keys = position_at(problem_.keys, kv_row, problem_.key_dim);
    task.values = position_at(problem_.values, kv_row, problem_.value_dim);
    task.slots = problem_.slots;
    task.key_dim = static_cast<int32_t>(problem_.key_dim);
    task.value_dim = static_cast<int32_t>(problem_.value_dim);
    const int64_t query_row = (at.batch_row * problem_.query_heads + at.first_head) * problem_.tokens;
    task.query = problem_.query + (query_row + at.first_token) * problem_.key_dim;
    task.query_head_stride = problem_.tokens * problem_.key_dim;
    task.heads = static_cast<int32_t>(at.heads);
    task.first_position = extent.first_position + at.first_token;
    task.causal = problem_.is_causal();
    task.window = problem_.window;
    task.begin = extent.oldest;
    task.end = extent.end;
    narrow_to_visible(task);
    if (problem_.beside) describe_beside(at, task);
    task.scale = problem_.scale;
    task.has_softcap = problem_.softcap.has_value();
    task.softcap = problem_.softcap.value_or(0.0F);
    if (problem_.bias) {
      task.bias = problem_.bias->table + at.first_head * problem_.bias->width;
      task.bias_width = problem_.bias->width;
      task.bias_origin = problem_.bias->origin;
    }
    if (problem_.sinks != nullptr) task.sinks = problem_.sinks + at.first_head;
    task.out = out_of(at);
    task.out_head_stride = problem_.value_dim;
    task.out_token_stride = problem_.query_heads * problem_.value_dim;
    return true;
  }

  void describe_beside(const Place& at, TileTask& task) const {
    const EncoderKeys& beside = *problem_.beside;
    const int64_t kv_row = (at.batch_row * problem_.kv_heads + at.kv_head) * beside.slots;
    task.beside_keys = position_at(beside.keys, kv_row, problem_.key_dim);
    task.beside_values = position_at(beside.values, kv_row, problem_.value_dim);
    task.beside_end = beside.lengths[at.batch_row];
  }

  // Drops keys that no query of the tile sees, so that splits share what is left evenly.
  static void narrow_to_visible(TileTask& task) {
    if (!task.causal) return;
    task.end = std::min(task.end, task.first_position + task.tokens);
    if (task.window <= task.first_position)
      task.begin = std::max(task.begin, task.first_position - task.window + 1);
  }

  void clear_padding(int64_t tile, int64_t live) const {
    const Place at = place(tile);
    for (int64_t token = live; token < at.tokens; ++token)
      std::memset(out_of(at) + token * problem_.query_heads * problem_.value_dim, 0,
                  sizeof(float) * at.heads * problem_.value_dim);
  }

  float* partial(int64_t index) const {
    return scratch_ + index * partial_floats(plan_.heads_per_tile * plan_.tokens_per_tile, problem_.value_dim);
  }

  void merge_row(int64_t tile, const TileTask& task, int32_t row) const {
    const int64_t dim = problem_.value_dim, rows = task.rows();
    const auto maximum_of = [&](const float* part) { return part[rows * dim + row]; };
    const auto total_of = [&](const float* part) { return part[rows * (dim + 1) + row]; };
    float highest = maximum_of(partial(tile * plan_.splits));
    for (int64_t split = 1; split < plan_.splits; ++split)
      highest = std::max(highest, maximum_of(partial(tile * plan_.splits + split)));
    float* out = task.out + row / task.tokens * task.out_head_stride + row % task.tokens * task.out_token_stride;
    std::memset(out, 0, sizeof(float) * dim);
    float total = 0.0F;
    for (int64_t split = 0; split < plan_.splits; ++split) {
      const float* part = partial(tile * plan_.splits + split);
      if (total_of(part) == 0.0F) continue;
      const float factor = std::exp(maximum_of(part) - highest);
      total += factor * total_of(part);
      for (int64_t column = 0; column < dim; ++column) out[column] += factor * part[row * dim + column];
    }
    if (total == 0.0F) return;
    if (task.sinks != nullptr) total += std::exp(task.sinks[row / task.tokens] - highest);
    for (int64_t column = 0; column < dim; ++column) out[column] /= total;
  }

  const AttentionProblem& problem_;
  const TilePlan& plan_;
  const KernelVariant& variant_;
  float* scratch_;
};

// Attends. `loop(count, body)` calls `body(begin, end)` over disjoint ranges that cover 0..count-1.
template <typename ParallelLoop>
void attend(const AttentionProblem& problem, const KernelVariant& variant, int64_t threads,
            const ParallelLoop& loop) {
  if (problem.batch == 0 || problem.tokens == 0) return;
  const TilePlan plan = plan_tiles(problem, threads);
  float scratch[kScratchFloats];
  const TileRunner runner(problem, plan, variant, scratch);
  const auto run = [&](int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index) runner.run(index);
  };
  if (plan.parallel)
    loop(runner.tasks(), run);
  else
    run(0, runner.tasks());
  if (plan.splits == 1) return;
  for (int64_t tile = 0; tile < runner.tiles(); ++tile) runner.merge(tile);
}

}  // namespace fixed_capacity
