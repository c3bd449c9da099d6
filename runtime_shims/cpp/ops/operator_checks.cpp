// Refusals. Everything is read here and nothing is written, so a refused call leaves the caches as they were.
#include <limits>

#include "operators.h"
#include "tile_task.h"

namespace fixed_capacity {
namespace {

Refusal refuse(const char* reason) { return Refusal{reason}; }

template <typename View>
struct Heads {
  ConstFloatView query;
  View key, value;
};

// Ranks, head counts, head sizes and key/value agreement, the same for every attention.
template <typename View>
Refusal check_heads(const Heads<View>& heads) {
  const ConstFloatView& query = heads.query;
  const View &key = heads.key, &value = heads.value;
  if (!query.has_rank(4) || !key.has_rank(4) || !value.has_rank(4))
    return refuse("queries, keys and values must have 4 dimensions");
  if (key.sizes[1] < 1 || query.sizes[1] < 1 || query.sizes[1] % key.sizes[1] != 0)
    return refuse("query heads must be a multiple of key/value heads");
  if (key.sizes[0] != value.sizes[0] || key.sizes[1] != value.sizes[1] || key.sizes[2] != value.sizes[2])
    return refuse("keys and values must agree in rows, heads and positions");
  if (query.sizes[3] != key.sizes[3]) return refuse("queries and keys must have one head size");
  if (key.sizes[3] < 1 || key.sizes[3] > kMaxHeadDim || value.sizes[3] < 1 || value.sizes[3] > kMaxHeadDim)
    return refuse("head sizes must be within 1..1024");
  if (query.sizes[1] > std::numeric_limits<int32_t>::max()) return refuse("too many query heads");
  return {};
}

template <typename View>
Refusal check_types(const View& key_cache, const View& value_cache) {
  if (key_cache.type != value_cache.type) return refuse("key and value caches must be of one type");
  return {};
}

Refusal check_caches(const ConstFloatView& key, const ConstFloatView& value, const CacheView& key_cache,
                     const CacheView& value_cache) {
  if (!key_cache.has_rank(4) || !value_cache.has_rank(4)) return refuse("caches must have 4 dimensions");
  for (int axis = 0; axis < 3; ++axis)
    if (key_cache.sizes[axis] != value_cache.sizes[axis])
      return refuse("key and value caches must agree in rows, heads and slots");
  if (key_cache.sizes[2] < 1) return refuse("caches must have at least 1 slot");
  if (key.sizes[0] > key_cache.sizes[0]) return refuse("more rows were given than the cache holds");
  if (key.sizes[1] != key_cache.sizes[1]) return refuse("key heads and cache heads must be equal");
  if (key.sizes[3] != key_cache.sizes[3] || value.sizes[3] != value_cache.sizes[3])
    return refuse("head sizes of the step and of the cache must be equal");
  return check_types(key_cache, value_cache);
}

// A query over caches that the call does not write.
Refusal check_read(const ConstFloatView& query, const ConstCacheView& key_cache, const ConstCacheView& value_cache) {
  if (const Refusal refusal = check_heads<ConstCacheView>({query, key_cache, value_cache})) return refusal;
  if (const Refusal refusal = check_types(key_cache, value_cache)) return refusal;
  if (query.sizes[0] > key_cache.sizes[0]) return refuse("more rows were given than the cache holds");
  if (key_cache.sizes[2] < 1) return refuse("caches must have at least 1 slot");
  return {};
}

Refusal check_options(const AttentionOptions& options, int64_t query_heads) {
  if (options.window && *options.window < 1) return refuse("the window must be at least 1");
  if (options.softcap && !(*options.softcap > 0.0)) return refuse("the soft cap must be positive");
  if (options.sinks && (!options.sinks->has_rank(1) || options.sinks->sizes[0] != query_heads))
    return refuse("the sinks must be one score per query head");
  if (!options.bias_table) return {};
  const ConstFloatView& table = *options.bias_table;
  if (!table.has_rank(2) || table.sizes[0] != query_heads || table.sizes[1] < 1)
    return refuse("the bias table must have one row per query head");
  constexpr int64_t kLargest = std::numeric_limits<int32_t>::max();
  if (options.bias_origin < -kLargest || options.bias_origin > kLargest)
    return refuse("the bias origin must fit 32 bits");
  return {};
}

Refusal check_lengths(const ConstIndexView& lengths, int64_t rows, int64_t most) {
  if (!lengths.has_rank(1) || lengths.sizes[0] != rows) return refuse("lengths must have one entry per row");
  for (int64_t row = 0; row < rows; ++row)
    if (lengths.data[row] < 0 || lengths.data[row] > most)
      return refuse("a length is negative or larger than the positions there are");
  return {};
}

Refusal check_positions(const ConstIndexView& positions, int64_t rows) {
  if (!positions.has_rank(1) || positions.sizes[0] != rows) return refuse("positions must have one entry per row");
  for (int64_t row = 0; row < rows; ++row)
    if (positions.data[row] < 0 || positions.data[row] > std::numeric_limits<int32_t>::max())
      return refuse("a position is negative or beyond 2^31 - 1");
  return {};
}

}  // namespace

Refusal check(const CachedAttentionArguments& arguments) {
  const ConstFloatView &query = arguments.query, &key = arguments.key, &value = arguments.value;
  if (const Refusal refusal = check_heads<ConstFloatView>({query, key, value})) return refusal;
  if (query.sizes[0] != key.sizes[0] || query.sizes[2] != key.sizes[2])
    return refuse("queries and keys must agree in rows and step tokens");
  if (const Refusal refusal = check_caches(key, value, arguments.key_cache, arguments.value_cache)) return refusal;
  if (key.sizes[2] > arguments.key_cache.sizes[2]) return refuse("the step has more tokens than the cache has slots");
  if (const Refusal refusal = check_options(arguments.options, query.sizes[1])) return refusal;
  if (const Refusal refusal = check_positions(arguments.positions, query.sizes[0])) return refusal;
  return check_lengths(arguments.step_lengths, query.sizes[0], query.sizes[2]);
}

Refusal check(const SharedAttentionArguments& arguments) {
  const ConstFloatView& query = arguments.query;
  const ConstCacheView& key_cache = arguments.key_cache;
  if (const Refusal refusal = check_read(query, key_cache, arguments.value_cache)) return refusal;
  if (query.sizes[2] > key_cache.sizes[2]) return refuse("the step has more tokens than the cache has slots");
  if (const Refusal refusal = check_options(arguments.options, query.sizes[1])) return refusal;
  if (const Refusal refusal = check_positions(arguments.positions, query.sizes[0])) return refusal;
  return check_lengths(arguments.step_lengths, query.sizes[0], query.sizes[2]);
}

Refusal check(const CrossAttentionArguments& arguments) {
  const ConstFloatView& query = arguments.query;
  const ConstCacheView& key_cache = arguments.key_cache;
  if (const Refusal refusal = check_read(query, key_cache, arguments.value_cache)) return refusal;
  if (const Refusal refusal = check_options(arguments.options, query.sizes[1])) return refusal;
  return check_lengths(arguments.lengths, query.sizes[0], key_cache.sizes[2]);
}

Refusal check(const MergedAttentionArguments& arguments) {
  const CachedAttentionArguments& step = arguments.step;
  const ConstCacheView &keys = arguments.cross_key_cache, &values = arguments.cross_value_cache;
  if (const Refusal refusal = check(step)) return refusal;
  if (step.options.bias_table || step.options.sinks) return refuse("merged attention has no bias table and no sinks");
  if (const Refusal refusal = check_read(step.query, keys, values)) return refusal;
  if (keys.type != step.key_cache.type) return refuse("cross and step caches must be of one type");
  if (keys.sizes[1] != step.key_cache.sizes[1]) return refuse("cross and step caches must have as many heads");
  if (values.sizes[3] != step.value_cache.sizes[3]) return refuse("cross and step caches must have one value size");
  return check_lengths(arguments.cross_lengths, step.query.sizes[0], keys.sizes[2]);
}

Refusal check(const EncoderAttentionArguments& arguments) {
  const ConstFloatView &query = arguments.query, &key = arguments.key;
  if (const Refusal refusal = check_heads<ConstFloatView>({query, key, arguments.value})) return refusal;
  if (query.sizes[0] != key.sizes[0] || query.sizes[2] != key.sizes[2])
    return refuse("queries and keys must agree in rows and positions");
  if (const Refusal refusal = check_options(arguments.options, query.sizes[1])) return refusal;
  return check_lengths(arguments.lengths, query.sizes[0], query.sizes[2]);
}

Refusal check(const WriteCrossArguments& arguments) {
  const ConstFloatView &key = arguments.key, &value = arguments.value;
  if (const Refusal refusal = check_heads<ConstFloatView>({key, key, value})) return refusal;
  if (const Refusal refusal = check_caches(key, value, arguments.key_cache, arguments.value_cache)) return refusal;
  if (key.sizes[2] > arguments.key_cache.sizes[2]) return refuse("more positions were given than the cache has slots");
  return check_lengths(arguments.lengths, key.sizes[0], key.sizes[2]);
}

}  // namespace fixed_capacity
